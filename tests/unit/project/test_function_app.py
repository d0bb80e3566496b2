"""The app as the Functions library sees it: loaded in a process of its own, with real settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions import health
from shared.version import VERSION
from tests.support.app_process import example_settings, run_python

INDEX = """
import json, azure.functions, function_app
registers = [value for value in vars(function_app).values() if isinstance(value, azure.functions.FunctionRegister)]
assert registers == [function_app.app], "the Functions worker wants exactly one app object"
functions = function_app.app.get_functions()
print(json.dumps({f.get_function_name(): [json.loads(b) for b in f.get_raw_bindings()] for f in functions}))
"""


def indexed(settings: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    done = run_python("-W", "error", "-c", INDEX, settings=settings)
    assert (0, "") == (done.returncode, done.stderr)
    functions: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return functions


def test_the_functions_library_indexes_the_app() -> None:
    (trigger,) = [binding for binding in indexed(example_settings())["health"] if binding["type"] == "httpTrigger"]
    expected = {"route": "health", "authLevel": "ANONYMOUS", "methods": ["GET"]}
    assert expected == {name: trigger[name] for name in expected}


def is_of_the_syphon(name: str, bindings: list[dict[str, Any]]) -> bool:
    return "syphon" in name or any(binding["type"] == "serviceBusTrigger" for binding in bindings)


def test_an_app_with_the_syphon_has_one_function_for_each_backlog_queue() -> None:
    """Of one message at a time, as bytes: a text or JSON body would overwrite what the binding says of the message."""
    settings = {"ENABLE_SYPHON": "true", "BACKLOG_QUEUE_COUNT": "3", "PRIMARY_NAMESPACE_NAME": "contoso"}
    functions = indexed({**example_settings(), **settings})
    expected = {
        f"syphon_{index}": [
            {
                "type": "serviceBusTrigger",
                "direction": "IN",
                "name": "message",
                "queueName": f"contoso/x-servicebus-transfer/{index}",
                "connection": "ServiceBusSecondary",
                "dataType": "BINARY",
                "cardinality": "ONE",
            }
        ]
        for index in range(3)
    }
    assert expected == {name: found for name, found in functions.items() if is_of_the_syphon(name, found)}


@pytest.mark.parametrize("said", ["false", None], ids=["off", "not set"])
def test_an_app_without_the_syphon_has_no_function_of_it(said: str | None) -> None:
    """Nor any other trigger on a queue: it would take messages away from the app that hosts the syphon."""
    settings = {name: value for name, value in example_settings().items() if name != "ENABLE_SYPHON"}
    functions = indexed({**settings, "BACKLOG_QUEUE_COUNT": "3", **({"ENABLE_SYPHON": said} if said else {})})
    assert "ping_primary" in functions
    assert [] == [name for name, found in functions.items() if is_of_the_syphon(name, found)]


def test_libraries_that_tell_of_every_request_are_quiet() -> None:
    """The Functions worker's own level lets all of it pass, and everything logged is paid for."""
    code = (
        "import logging; logging.getLogger().setLevel(logging.INFO); import function_app;"
        "quiet = logging.getLogger('azure.core.pipeline.policies.http_logging_policy');"
        "print(quiet.isEnabledFor(logging.INFO), logging.getLogger('shared.x').isEnabledFor(logging.INFO))"
    )
    done = run_python("-c", code, settings=example_settings())
    assert (0, "False True\n") == (done.returncode, done.stdout), done.stderr


def test_health_answers_with_version_and_state() -> None:
    # The decorator leaves a builder behind; the library's own accessor gives back the function itself.
    user_function = health.health.build(auth_level=None).get_user_function()  # type: ignore[attr-defined]
    answer = user_function(None)
    assert (200, "application/json") == (answer.status_code, answer.mimetype)
    assert {"status": "started", "version": VERSION, "settings": "valid"} == json.loads(answer.get_body())


def test_four_mistakes_at_once_stop_the_app_with_four_lines_and_no_secret() -> None:
    settings = example_settings()
    settings |= {"FAILOVER_INTERVAL": "2 minutes", "BACKLOG_QUEUE_COUNT": "0"}
    settings |= {"ServiceBusPrimary": "Endpoint=sb://localhost:5672;SharedAccessKeyName=Root", "PairStateStorage": ""}
    settings |= {"AzureWebJobsStorage": "AccountName=contoso;AccountKey=c2VjcmV0"}
    del settings["ServiceBusSecondary"]

    done = run_python("-c", "import function_app", settings=settings)

    names = ["ServiceBusPrimary", "ServiceBusSecondary", "BACKLOG_QUEUE_COUNT", "FAILOVER_INTERVAL"]
    assert names == [line.partition(": ")[0] for line in done.stderr.splitlines()]
    assert (1, "") == (done.returncode, done.stdout)
    assert "c2VjcmV0" not in done.stderr


def test_the_settings_check_says_what_it_found() -> None:
    done = run_python("scripts/check_settings.py", "local.settings.example.json", settings={})
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("Checked: the settings of local.settings.example.json are valid")
    assert "primary at localhost:5672" in done.stdout


def test_the_environment_wins_over_the_settings_file() -> None:
    arguments = ("scripts/check_settings.py", "local.settings.example.json")
    done = run_python(*arguments, settings={"PRIMARY_NAMESPACE_NAME": "contoso"})
    assert "contoso at localhost:5672" in done.stdout


def test_a_settings_file_that_is_none_is_refused_by_name() -> None:
    missing = run_python("scripts/check_settings.py", "no.such.file", settings={})
    wrong = run_python("scripts/check_settings.py", "host.json", settings={})
    assert (1, "no.such.file: cannot be read: No such file or directory\n") == (missing.returncode, missing.stderr)
    assert wrong.stderr.startswith("host.json: not a settings file; example: ")
