"""Call a function the way the Python worker does: converters in, user code, converters out."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import azure.functions as func

from local.host.converters import Datum, converter_for, has_trigger_support
from local.host.deadlines import Deadlines
from local.host.errors import ConfigurationError
from local.host.model import FunctionSpec
from local.host.threads import FunctionThreads

THREAD_COUNT_SETTING = "PYTHON_THREADPOOL_THREAD_COUNT"
THREAD_COUNT_MAX = 1000

#: The function that the current task or thread serves, for log lines.
current_invocation: contextvars.ContextVar[str | None] = contextvars.ContextVar("current_invocation", default=None)
_thread_local = threading.local()


class FunctionTimedOut(Exception):
    """The function ran longer than functionTimeout."""

    def __init__(self, name: str, limit: timedelta | None) -> None:
        super().__init__(f"function '{name}' ran longer than functionTimeout ({limit}) and was given up")


class FunctionBroke(Exception):
    """The function raised what is meant for the interpreter or the event loop; it ends that call and nothing else."""

    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(f"function '{name}' raised {error!r}; only its own call ends")


@dataclass(kw_only=True, slots=True)
class Invocation:
    """What a function gave back: its return value and its output bindings, encoded."""

    returned: Datum | None
    outputs: tuple[tuple[str, Datum], ...] = ()


class TraceContext:
    """The caller's W3C trace context."""

    def __init__(self, trace_parent: str, trace_state: str) -> None:
        self.trace_parent = trace_parent
        self.trace_state = trace_state
        self.attributes: dict[str, str] = {}


class RetryContext:
    """Which attempt this is, for triggers with a retry policy."""

    def __init__(self, retry_count: int, max_retry_count: int, exception: Exception | None) -> None:
        self.retry_count = retry_count
        self.max_retry_count = max_retry_count
        self.exception = exception


class InvocationContext(func.Context):
    """azure.functions.Context of one invocation."""

    def __init__(self, spec: FunctionSpec, invocation_id: str, trace: TraceContext, retry: RetryContext) -> None:
        self._spec = spec
        self._invocation_id = invocation_id
        self._trace = trace
        self._retry = retry

    @property
    def invocation_id(self) -> str:
        return self._invocation_id

    @property
    def thread_local_storage(self) -> Any:
        return _thread_local

    @property
    def function_name(self) -> str:
        return self._spec.name

    @property
    def function_directory(self) -> str:
        return self._spec.directory

    @property
    def trace_context(self) -> Any:
        return self._trace

    @property
    def retry_context(self) -> Any:
        return self._retry


class Out(func.Out[Any]):
    """An output parameter."""

    def __init__(self) -> None:
        self._value: Any = None

    def set(self, val: Any) -> None:
        self._value = val

    def get(self) -> Any:
        return self._value


NO_RETRY = RetryContext(0, 0, None)


def thread_count(settings: Mapping[str, str]) -> int:
    """PYTHON_THREADPOOL_THREAD_COUNT, or Python's own default."""
    text = settings.get(THREAD_COUNT_SETTING)
    if not text:
        return min(32, (os.cpu_count() or 1) + 4)
    if not text.isdigit() or not 1 <= int(text) <= THREAD_COUNT_MAX:
        raise ConfigurationError(f"{THREAD_COUNT_SETTING} must be a whole number from 1 to {THREAD_COUNT_MAX}")
    return int(text)


class Invoker:
    """Runs functions: async ones on the event loop, the others on the threads of one pool."""

    def __init__(self, *, threads: FunctionThreads, timeout: timedelta | None) -> None:
        self._threads = threads
        self._timeout = timeout
        self._deadlines = Deadlines(None if timeout is None else timeout.total_seconds())

    async def invoke(
        self,
        spec: FunctionSpec,
        inputs: Mapping[str, Datum | None],
        metadata: Mapping[str, Datum] | None = None,
        *,
        trace_parent: str = "",
        trace_state: str = "",
        retry: RetryContext = NO_RETRY,
    ) -> Invocation:
        """One call. Raises what the function raised, FunctionTimedOut, or FunctionBroke for what is no Exception."""
        token = current_invocation.set(spec.name)
        try:
            arguments = decode_inputs(spec, inputs, metadata or {})
            invocation_id = ""
            if spec.requires_context:
                invocation_id = str(uuid.uuid4())
                trace = TraceContext(trace_parent, trace_state)
                arguments["context"] = InvocationContext(spec, invocation_id, trace, retry)
            for name in spec.outputs:
                arguments[name] = Out()
            result = await self._call(spec, arguments, invocation_id)
            return encode_result(spec, result, arguments)
        finally:
            current_invocation.reset(token)

    async def _call(self, spec: FunctionSpec, arguments: dict[str, Any], invocation_id: str) -> Any:
        if spec.is_async:
            return await self._call_async(spec, arguments)
        return await self._call_sync(spec, arguments, invocation_id)

    async def _call_async(self, spec: FunctionSpec, arguments: dict[str, Any]) -> Any:
        call = self._deadlines.enter()
        try:
            return await spec.call(**arguments)
        except asyncio.CancelledError as error:
            if call is not None and call.is_timeout():
                raise FunctionTimedOut(spec.name, self._timeout) from None
            if _is_being_cancelled():
                raise
            raise FunctionBroke(spec.name, error) from error
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            # Out of a task, SystemExit and KeyboardInterrupt would end the event loop, and the host with it.
            raise FunctionBroke(spec.name, error) from error
        finally:
            self._deadlines.leave(call)

    async def _call_sync(self, spec: FunctionSpec, arguments: dict[str, Any], invocation_id: str) -> Any:
        call = self._threads.submit(functools.partial(_run_on_thread, spec, arguments, invocation_id))
        watched = self._deadlines.enter()
        try:
            return await call.future
        except asyncio.CancelledError:
            if watched is not None and watched.is_timeout():
                call.abandon()
                raise FunctionTimedOut(spec.name, self._timeout) from None
            call.withdraw()
            raise
        finally:
            self._deadlines.leave(watched)


def _is_being_cancelled() -> bool:
    """Whether somebody asked the current task to end, rather than the code in it having raised by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _run_on_thread(spec: FunctionSpec, arguments: dict[str, Any], invocation_id: str) -> Any:
    _thread_local.invocation_id = invocation_id
    try:
        return spec.call(**arguments)
    except StopIteration as error:
        # A future cannot carry it.
        raise RuntimeError(f"function raised StopIteration: {error}") from error
    except Exception:
        raise
    except BaseException as error:
        # Nobody can cancel a thread, and the signals of a stop go to the main one: this is the function's own doing.
        raise FunctionBroke(spec.name, error) from error
    finally:
        _thread_local.invocation_id = None


def decode_inputs(
    spec: FunctionSpec, inputs: Mapping[str, Datum | None], metadata: Mapping[str, Datum]
) -> dict[str, Any]:
    """Arguments of the function from what the host has for its bindings."""
    arguments: dict[str, Any] = {}
    for name, datum in inputs.items():
        kind = spec.inputs[name].binding
        given = metadata if has_trigger_support(kind) else {}
        try:
            arguments[name] = converter_for(kind).decode(datum, trigger_metadata=given)
        except NotImplementedError as error:
            shown = None if datum is None else datum.type
            raise TypeError(f"unable to decode {shown!r} data for the {kind} binding of '{spec.name}'") from error
    return arguments


def encode_result(spec: FunctionSpec, result: Any, arguments: Mapping[str, Any]) -> Invocation:
    """The function's return value and output parameters, through the library's converters."""
    if result is not None and spec.returns is None:
        raise RuntimeError(f"function {spec.name!r} without a $return binding returned a non-None value")
    outputs: list[tuple[str, Datum]] = []
    for name, described in spec.outputs.items():
        value = arguments[name].get()
        if value is not None:
            outputs.append((name, _encode(described.binding, value, described.pytype)))
    returned = None if spec.returns is None else _encode(spec.returns.binding, result, spec.returns.pytype)
    return Invocation(returned=returned, outputs=tuple(outputs))


def _encode(binding: str, value: Any, pytype: Any) -> Any:
    try:
        return converter_for(binding).encode(value, expected_type=pytype)
    except NotImplementedError:
        raise TypeError(
            f'unable to encode outgoing TypedData: unsupported type "{binding}" for Python type '
            f'"{type(value).__name__}"'
        ) from None
