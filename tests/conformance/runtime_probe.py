"""Runs inside the runtime's own environment: index an app with Microsoft's code, and invoke its functions.

Prints one JSON line: {"functions": [{name, trigger, problem}]} or {"error": "..."}. It imports nothing of this
project, only the app's folder is on the path.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import re
import sys
import uuid
from types import SimpleNamespace
from typing import Any

INVOKE_TIMEOUT_S = 15.0
FOLDER = os.path.realpath(sys.argv[1])
#: Functions of the toy app that hang, block, or return what cannot be encoded: being indexed is enough for them.
NOT_CALLED = ("hangs", "blocks", "returns")
#: Folders beside the app's code: the runtime's own environment is in one of them.
NOT_THE_APP = ("build", ".venv")

_TRACE_FILE = re.compile(r'^ *File "([^"]+)", line ', re.MULTILINE)


class BindingInfo:
    """Stands in for the generated protobuf class: three numbers are all that indexing reads of it."""

    undefined = 0
    out = 1
    inout = 2


def main(folder: str, mode: str) -> dict[str, Any]:
    sys.path.insert(0, folder)
    registry = _runtime("handle_event")._functions
    _runtime("bindings.meta").load_binding_registry()
    _runtime("utils.threadpool").start_threadpool_executor()
    protos = SimpleNamespace(BindingInfo=BindingInfo)
    try:
        functions = _runtime("loader").index_function_app(os.path.join(folder, "function_app.py"))
        for function in functions:
            registry.add_indexed_function(function, protos)
    except BaseException as error:  # a SystemExit of the app is a refusal too
        return {"error": f"{type(error).__name__}: {error}"}
    if mode == "index":
        return {"functions": [{"name": function.get_function_name()} for function in functions]}
    loop = asyncio.new_event_loop()
    return {"functions": loop.run_until_complete(_invoke_all(functions))}


def _runtime(module: str) -> Any:
    """A module of the runtime, which is installed only where this probe runs."""
    return importlib.import_module(f"azure_functions_runtime.{module}")


async def _invoke_all(functions: list[Any]) -> list[dict[str, str]]:
    problems = await asyncio.gather(*(_invoke(function) for function in functions))
    return [
        {"name": function.get_function_name(), "trigger": function.get_trigger().type, "problem": problem}
        for function, problem in zip(functions, problems, strict=True)
    ]


async def _invoke(function: Any) -> str:
    name, trigger = function.get_function_name(), function.get_trigger()
    if name in NOT_CALLED:
        return ""
    inputs, metadata = _inputs(function, trigger)
    if inputs is None:
        return f"trigger '{trigger.type}' is unknown to this check"
    function_id = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
    invoke = _runtime("native_invocation").invocation_request_native
    task = asyncio.ensure_future(invoke(str(uuid.uuid4()), function_id, inputs, metadata))
    done, _ = await asyncio.wait((task,), timeout=INVOKE_TIMEOUT_S)
    if not done:
        # Some functions wait for something by design; being inside of one is being invoked.
        return "" if _is_inside(task, function) else "was not entered in time"
    ok, returned, _, error, trace = task.result()
    if not ok and not _was_entered(str(trace)):
        return str(error)
    if ok and trigger.type in ("httpTrigger", "orchestrationTrigger", "activityTrigger") and returned is None:
        return "returned nothing"
    return ""


def _was_entered(trace: str) -> bool:
    """A function that raised has been invoked: the made-up input need not please it, nor need services answer."""
    return any(_is_of_app(file) for file in _TRACE_FILE.findall(trace))


def _is_of_app(file: str) -> bool:
    """Whether a file is the app's code. The app's folder may also hold this probe and the runtime's environment."""
    path = os.path.realpath(file)
    if path == os.path.realpath(__file__) or not path.startswith(FOLDER + os.sep):
        return False
    folders = os.path.relpath(path, FOLDER).split(os.sep)
    return folders[0] not in NOT_THE_APP and "site-packages" not in folders


def _is_inside(task: Any, function: Any) -> bool:
    """Whether a call has reached the app's own code: its own coroutine, or a thread that runs this very function."""
    waiting = task.get_coro()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None)
        if frame is not None and _is_of_app(frame.f_code.co_filename):
            return True
        waiting = getattr(waiting, "cr_await", None)
    code = inspect.unwrap(function.get_user_function()).__code__
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_code is code:
                return True
            frame = frame.f_back
    return False


def _inputs(function: Any, trigger: Any) -> tuple[list[tuple[str, Any]] | None, dict[str, Any]]:
    datum = _runtime("bindings.datumdef").Datum
    inputs: list[tuple[str, Any]] = []
    metadata: dict[str, Any] = {}
    for binding in function.get_bindings():
        if binding.direction == 1 or binding.name == "$return":
            continue
        if binding.type == "durableClient":
            inputs.append((binding.name, datum(value=_durable_client(), type="string")))
            continue
        made = _trigger_value(datum, trigger)
        if made is None:
            return None, {}
        value, metadata = made
        inputs.append((binding.name, value))
    return inputs, metadata


def _trigger_value(datum: Any, trigger: Any) -> tuple[Any, dict[str, Any]] | None:
    match trigger.type:
        case "httpTrigger":
            return _http(datum, trigger), {}
        case "timerTrigger":
            text = '{"Schedule": {"AdjustForDST": true}, "ScheduleStatus": null, "IsPastDue": false}'
            return datum(value=text, type="json"), {}
        case "serviceBusTrigger":
            return _service_bus(datum, trigger)
        case "activityTrigger":
            # A value that every activity of the apps can at least be called with.
            return datum(value='{"name": "probe", "fails": 0, "value": 1}', type="string"), {}
        case "orchestrationTrigger":
            return datum(value=json.dumps(_orchestration()), type="string"), {}
        case "entityTrigger":
            return datum(value='{"self": {"name": "x", "key": "y"}, "exists": false, "state": null, "batch": []}',
                         type="string"), {}  # fmt: skip
    return None


def _http(datum: Any, trigger: Any) -> Any:
    methods = [str(getattr(method, "value", method)) for method in (getattr(trigger, "methods", None) or ["GET"])]
    return datum(
        value={
            "method": datum(value=methods[0], type="string"),
            "url": datum(value="http://localhost:7071/api/probe", type="string"),
            "headers": {},
            "params": {name: datum(value="1", type="string") for name in ("id", "name", "what", "verb", "path")},
            "query": {},
            "body": datum(value=b"", type="bytes"),
        },
        type="http",
    )


def _service_bus(datum: Any, trigger: Any) -> tuple[Any, dict[str, Any]]:
    many = str(getattr(getattr(trigger, "cardinality", None), "value", "one")).lower() == "many"
    if many:
        return (
            datum(value=SimpleNamespace(string=["probe"]), type="collection_string"),
            {
                "UserPropertiesArray": datum(value="[{}]", type="json"),
                "MessageIdArray": datum(value=SimpleNamespace(string=["1"]), type="collection_string"),
            },
        )
    return datum(value=b"probe", type="bytes"), {
        "UserProperties": datum(value="{}", type="json"),
        "ApplicationProperties": datum(value="{}", type="json"),
        "MessageId": datum(value="1", type="string"),
        "SequenceNumber": datum(value="1", type="json"),
        "DeliveryCount": datum(value="1", type="json"),
    }


def _orchestration() -> dict[str, Any]:
    base = {"EventId": -1, "IsPlayed": False, "Timestamp": "2026-01-01T00:00:00.000000Z"}
    text = json.dumps({"seconds": 1, "attempts": 1, "fails": 0, "name": "probe"})
    return {
        "history": [
            {**base, "EventType": 12},
            {**base, "EventType": 0, "Name": "probe", "Version": "", "Input": text},
        ],
        "input": text,
        "instanceId": "probe",
        "isReplaying": False,
        "parentInstanceId": None,
        "upperSchemaVersion": 1,
        "upperSchemaVersionNew": 2,
        "longRunningTimerIntervalDuration": "3.00:00:00",
        "maximumShortTimerDuration": "6.00:00:00",
    }


def _durable_client() -> str:
    urls = {"id": "INSTANCEID", "statusQueryGetUri": "http://127.0.0.1:9/INSTANCEID"}
    return json.dumps(
        {"taskHubName": "probe", "creationUrls": {}, "managementUrls": urls, "rpcBaseUrl": "http://127.0.0.1:9/"}
    )


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(json.dumps(main(FOLDER, sys.argv[2])), flush=True)
    # Functions that still wait must not hold the process.
    os._exit(0)
