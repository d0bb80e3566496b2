"""What the engine tells the broker. One list per receive_data, in the order in which things happened.

The objects in an event are live: by the time an event is handled, a later one in the same list may already have
detached its link. A link that is gone shows no credit, and answers to it are quietly dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from local.broker.amqp.performatives import AmqpError, DeliveryState

if TYPE_CHECKING:
    from local.broker.amqp.connection import Connection
    from local.broker.amqp.delivery import Delivery
    from local.broker.amqp.link import Link
    from local.broker.amqp.session import Session


@dataclass(slots=True)
class ConnectionOpened:
    """The peer's open arrived and ours was sent."""

    connection: Connection


@dataclass(slots=True)
class LinkAttached:
    """The peer wants a link: accept, refuse, or hold it and decide later."""

    link: Link


@dataclass(slots=True)
class LinkDetached:
    """The peer detached the link, or broke a rule and had it detached. Not sent for a detach the broker asked for."""

    link: Link
    error: AmqpError | None
    closed: bool


@dataclass(slots=True)
class LinkFlow:
    """Credit, drain or room may have changed on a link we send on: look at link.credit and link.drain."""

    link: Link


@dataclass(slots=True)
class DeliveryReceived:
    """A complete delivery; settle it unless it came settled."""

    link: Link
    delivery: Delivery


@dataclass(slots=True)
class DeliveryUpdated:
    """The peer's disposition for one delivery we sent; when not settled, answer with delivery.settle."""

    link: Link
    delivery: Delivery
    state: DeliveryState | None
    settled: bool


@dataclass(slots=True)
class SessionEnded:
    """A session is over, and with it these links (those not detached before)."""

    session: Session
    links: Sequence[Link]
    error: AmqpError | None


@dataclass(slots=True)
class ConnectionClosed:
    """The connection is over, and with it these links. The last event of a connection; comes exactly once."""

    error: AmqpError | None
    links: Sequence[Link]


@dataclass(slots=True)
class ConnectionFailed(ConnectionClosed):
    """A ConnectionClosed because the peer broke the protocol; `error` is what it was told."""


Event = (
    ConnectionOpened
    | LinkAttached
    | LinkDetached
    | LinkFlow
    | DeliveryReceived
    | DeliveryUpdated
    | SessionEnded
    | ConnectionClosed
)
