"""The triggers that wake the syphon: one for each backlog queue, made from BACKLOG_QUEUE_COUNT.

The binding hands Python a lossy view of a message, so all that is taken from it is the message's number. One message
at a time (host.json: maxConcurrentCalls), and binary: a JSON body would otherwise overwrite the metadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import azure.functions as func

from shared import composition
from shared.domain.backlog import backlog_queue_paths
from shared.domain.pair import EntityPath

CONNECTION = "ServiceBusSecondary"


def make_blueprint() -> func.Blueprint:
    """No functions at all in an app that does not host the syphon."""
    blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped
    settings = composition.settings()
    if settings.enable_syphon:
        for index, path in enumerate(backlog_queue_paths(settings.pair.primary, settings.backlog_queue_count)):
            blueprint.function_name(f"syphon_{index}")(
                blueprint.service_bus_queue_trigger(
                    arg_name="message",
                    queue_name=str(path),
                    connection=CONNECTION,
                    data_type=func.DataType.BINARY,
                    cardinality=func.Cardinality.ONE,
                )(_tending(path))
            )
    return blueprint


def _tending(path: EntityPath) -> Callable[[func.ServiceBusMessage], Awaitable[None]]:
    async def tend(message: func.ServiceBusMessage) -> None:
        """Returning has the host complete the message, raising has it given back."""
        assert message.sequence_number is not None, "the host always tells a message's number"
        await composition.runtime().syphon.tend(path, message.sequence_number)

    return tend
