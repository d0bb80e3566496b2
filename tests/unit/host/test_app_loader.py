"""What Microsoft's runtime refuses at index time is refused with one line that names the function.

The runtime check (tests/conformance/runtime_check.py) puts the same apps before Microsoft's own code.
"""

from pathlib import Path

import pytest

from local.host.app_loader import load_app
from local.host.errors import AppLoadError, FunctionRefused
from tests.support.host_bad_apps import ACCEPTED, REFUSED

HEAD = "import typing\nimport azure.functions as func\nimport azure.durable_functions as df\n"


def refuse_nothing(refused: FunctionRefused) -> None:
    raise AssertionError(f"unexpected: {refused}")


def write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "function_app.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refuses_what_the_runtime_refuses(name: str, tmp_path: Path) -> None:
    case = REFUSED[name]
    with pytest.raises(AppLoadError) as raised:
        load_app(write(tmp_path, case.source), on_refused=refuse_nothing)
    assert "\n" not in str(raised.value)
    assert case.said in str(raised.value)


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_accepts_what_the_runtime_accepts(name: str, tmp_path: Path) -> None:
    app = load_app(write(tmp_path, ACCEPTED[name].source), on_refused=refuse_nothing)
    assert app.functions


def test_a_missing_script_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(AppLoadError, match=r"function_app\.py does not exist"):
        load_app(tmp_path, on_refused=refuse_nothing)


def test_another_script_may_be_named_by_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other_app.py").write_text(ACCEPTED["plain http"].source)
    monkeypatch.setenv("PYTHON_SCRIPT_FILE_NAME", "other_app.py")
    assert "other_app.py" == load_app(tmp_path, on_refused=refuse_nothing).script


def test_entities_are_refused_by_name_and_the_others_go_on(tmp_path: Path) -> None:
    source = HEAD + (
        "app = df.DFApp()\n"
        '@app.entity_trigger(context_name="context")\n'
        "def tally(context): pass\n"
        '@app.route(route="x")\n'
        'def fine(req: func.HttpRequest) -> str: return "x"\n'
    )
    refused: list[FunctionRefused] = []
    app = load_app(write(tmp_path, source), on_refused=refused.append)
    assert ["fine"] == [spec.name for spec in app.functions]
    assert ["function 'tally': durable entities are not supported by the local host"] == [str(r) for r in refused]


def test_the_description_holds_what_the_worker_needs(tmp_path: Path) -> None:
    source = HEAD + (
        "app = func.FunctionApp()\n"
        '@app.service_bus_queue_output(arg_name="out", queue_name="r", connection="Bus")\n'
        '@app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="Bus", '
        "data_type=func.DataType.BINARY, cardinality=func.Cardinality.MANY, auto_complete_messages=False)\n"
        "async def take(msg: typing.List[func.ServiceBusMessage], out: func.Out[str], context: func.Context): pass\n"
    )
    (spec,) = load_app(write(tmp_path, source), on_refused=refuse_nothing).functions
    assert ("take", "serviceBusTrigger", "msg") == (spec.name, spec.trigger_type, spec.trigger_name)
    assert ("BINARY", "MANY", False) == tuple(
        spec.trigger[key] for key in ("dataType", "cardinality", "autoCompleteMessages")
    )
    assert (True, True, ["out"]) == (spec.is_async, spec.requires_context, list(spec.outputs))
