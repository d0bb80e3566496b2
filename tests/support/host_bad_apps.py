"""Small apps that the Python worker refuses, and near misses that it accepts."""

from __future__ import annotations

from dataclasses import dataclass

_HEAD = "import typing\nimport azure.functions as func\nimport azure.durable_functions as df\n"
_APP = _HEAD + "app = func.FunctionApp()\n"
_BUS = '@app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="Bus")\n'
_ROUTE = '@app.route(route="x")\n'


@dataclass(frozen=True, kw_only=True)
class Case:
    """A function_app.py, and a word that the refusal must hold."""

    source: str
    said: str = ""


REFUSED = {
    "no app": Case(source="x = 1\n", said="no FunctionApp"),
    "two apps": Case(source=_APP + "other = func.FunctionApp()\n", said="app, other"),
    "an alias of the app": Case(source=_APP + "alias = app\n", said="app, alias"),
    "an import that fails": Case(source="import no_such_module\n", said="function_app.py:1: ModuleNotFoundError"),
    "an exception on import": Case(source=_HEAD + "\nraise ValueError('no settings')\n", said="no settings"),
    "two functions of one name": Case(
        source=_APP
        + _ROUTE
        + "def same(req: func.HttpRequest) -> str: return ''\n"
        + '@app.function_name("same")\n@app.route(route="y")\n'
        + "def other(req: func.HttpRequest) -> str: return ''\n",
        said="same",
    ),
    "an orchestrator context of another name": Case(
        source=_HEAD
        + 'app = df.DFApp()\n@app.orchestration_trigger(context_name="ctx")\ndef orchestrate(ctx): yield None\n',
        said='context_name="context"',
    ),
    "a builtin generic": Case(
        source=_APP
        + '@app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="Bus", cardinality="many")\n'
        + "def take(msg: list[func.ServiceBusMessage]): pass\n",
        said="function 'take'",
    ),
    "an optional": Case(
        source=_APP + _BUS + "def take(msg: typing.Optional[func.ServiceBusMessage]): pass\n", said="function 'take'"
    ),
    "a message as dict": Case(source=_APP + _BUS + "def take(msg: dict): pass\n", said="function 'take'"),
    "a parameter without a binding": Case(
        source=_APP + _ROUTE + "def extra(req: func.HttpRequest, more: str = '') -> str: return ''\n", said="more"
    ),
    "a binding without a parameter": Case(source=_APP + _ROUTE + "def missing() -> str: return ''\n", said="req"),
    "a context of another type": Case(
        source=_APP + _ROUTE + "def wrong(req: func.HttpRequest, context: str) -> str: return ''\n", said="Context"
    ),
    "an output that is no Out": Case(
        source=_APP
        + '@app.service_bus_queue_output(arg_name="out", queue_name="r", connection="Bus")\n'
        + _ROUTE
        + "def give(req: func.HttpRequest, out: str) -> str: return ''\n",
        said="Out",
    ),
    "an input that is an Out": Case(
        source=_APP + _BUS + "def take(msg: func.Out[str]): pass\n", said='direction "in"'
    ),
    "a return type that cannot be encoded": Case(
        source=_APP + _ROUTE + "def give(req: func.HttpRequest) -> dict: return {}\n", said="dict"
    ),
    "a timer as str list": Case(
        source=_APP
        + '@app.timer_trigger(schedule="0 * * * * *", arg_name="timer")\ndef tick(timer: func.HttpRequest): pass\n',
        said="function 'tick'",
    ),
}

ACCEPTED = {
    "plain http": Case(source=_APP + _ROUTE + "def fine(req: func.HttpRequest) -> str: return ''\n"),
    "a typing generic": Case(
        source=_APP
        + '@app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="Bus", cardinality="many")\n'
        + "def take(msg: typing.List[func.ServiceBusMessage]): pass\n"
    ),
    "a message as str": Case(source=_APP + _BUS + "def take(msg: str): pass\n"),
    "postponed annotations": Case(
        source="from __future__ import annotations\n" + _APP + _BUS + "def take(msg: func.ServiceBusMessage): pass\n"
    ),
    "a context": Case(
        source=_APP + _ROUTE + "def fine(req: func.HttpRequest, context: func.Context) -> str: return ''\n"
    ),
    "a durable blueprint in a plain app": Case(
        source=_APP
        + "bp = df.Blueprint()\n"
        + '@bp.orchestration_trigger(context_name="context")\ndef orchestrate(context): yield None\n'
        + "app.register_functions(bp)\n"
    ),
    "a sync function with a durable client": Case(
        source=_HEAD
        + "app = df.DFApp()\n"
        + _ROUTE
        + '@app.durable_client_input(client_name="client")\n'
        + "def start(req: func.HttpRequest, client) -> str: return ''\n"
    ),
    "no annotations at all": Case(source=_APP + _BUS + "def take(msg): pass\n"),
}
