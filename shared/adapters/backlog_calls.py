"""Calls of the SDK on a backlog queue: each has its time, and every way to fail has one of our names."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from shared.adapters.sdk_failures import classify, detail_of
from shared.bounded import within
from shared.ports import BacklogTrouble, NotThere, Unreadable

#: One call on a backlog queue; the SDK alone would wait for minutes on a connection that fell silent.
CALL_SECONDS_MAX = 15.0

T = TypeVar("T")


async def bounded(call: Awaitable[T]) -> T:
    return await named(within(CALL_SECONDS_MAX, call))


async def named(call: Awaitable[T]) -> T:
    """The call's result; every way to fail has one of our names."""
    try:
        return await call
    except MessageNotFoundError as error:
        raise NotThere(detail_of(error)) from error
    except TimeoutError as error:
        raise BacklogTrouble(f"no answer within {CALL_SECONDS_MAX:g} s") from error
    except ServiceBusError as error:
        if "Handler failed" in str(error) and isinstance(error.inner_exception, ValueError):
            raise Unreadable(detail_of(error)) from error
        raise BacklogTrouble(f"{classify(error).value}: {detail_of(error)}") from error
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        # The SDK raises these when its connection breaks under it.
        raise BacklogTrouble(f"{type(error).__name__}: {detail_of(error)}") from error
