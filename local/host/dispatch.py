"""One call per message or batch, and what becomes of the messages afterwards."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from azure.servicebus import ServiceBusReceivedMessage

from local.host.converters import Datum
from local.host.errors import one_line
from local.host.host_json import ServiceBusOptions
from local.host.invoke import Invocation, Invoker
from local.host.messages import body_datum, many_body, many_metadata, single_metadata
from local.host.model import FunctionSpec
from local.host.pump import Verdict
from local.host.receive import read_message

log = logging.getLogger("local.host.servicebus")


class Dispatcher:
    """Turns received messages into one call and the call's end into a verdict."""

    def __init__(
        self,
        *,
        spec: FunctionSpec,
        options: ServiceBusOptions,
        invoker: Invoker,
        extra_inputs: Callable[[], Mapping[str, Datum]],
        on_outputs: Callable[[FunctionSpec, Invocation], Awaitable[None]],
    ) -> None:
        trigger = spec.trigger
        self._spec = spec
        self._invoker = invoker
        self._extra_inputs = extra_inputs
        self._on_outputs = on_outputs
        self._has_outputs = any(binding.get("direction") == "OUT" for binding in spec.bindings)
        self._binary = str(trigger.get("dataType", "")).upper() == "BINARY"
        own = trigger.get("autoCompleteMessages")
        self._completes = options.auto_complete if own is None else bool(own)
        self.many = str(trigger.get("cardinality", "ONE")).upper() == "MANY"

    async def __call__(self, messages: Sequence[ServiceBusReceivedMessage]) -> Verdict:
        try:
            datum, metadata = self._inputs(messages)
            inputs = {self._spec.trigger_name: datum, **self._extra_inputs()}
            invocation = await self._invoker.invoke(self._spec, inputs, metadata)
            if self._has_outputs:
                await self._on_outputs(self._spec, invocation)
        except Exception as error:
            log.error(
                "function '%s' failed: %s: %s",
                self._spec.name, type(error).__name__, one_line(error), exc_info=error,
            )  # fmt: skip
            return Verdict.ABANDON
        return Verdict.COMPLETE if self._completes else Verdict.LEAVE

    def _inputs(self, messages: Sequence[ServiceBusReceivedMessage]) -> tuple[Datum, dict[str, Datum]]:
        read = [read_message(message) for message in messages]
        if self.many:
            return many_body(read, binary=self._binary), many_metadata(read)
        return body_datum(read[0], binary=self._binary), single_metadata(read[0], binary=self._binary)
