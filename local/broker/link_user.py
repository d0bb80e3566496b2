"""What every link of a connection has in common, whatever the broker does with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .amqp.link import Delivery, Link
from .amqp.performatives import DeliveryState
from .errors import BrokerError
from .outcomes import amqp_error

if TYPE_CHECKING:
    from .peer import Peer

_log = logging.getLogger(__name__)


class LinkUser:
    """One link in use. It ends once, by whoever is first: the client, the entity, a fault, the connection."""

    #: False for `$cbs`, which is where tokens come from.
    needs_token = True

    def __init__(self, peer: Peer, link: Link, path: str) -> None:
        self.path = path
        self.is_closed = False
        self._peer = peer
        self._link = link

    def open(self) -> None:
        """Accept the link; BrokerError refuses it."""
        raise NotImplementedError

    def on_delivery(self, delivery: Delivery) -> None:
        """A message came in (links on which the client sends)."""

    def on_update(self, delivery: Delivery, state: DeliveryState | None, settled: bool) -> None:
        """The client's word on a message it got (links on which it receives)."""

    def on_flow(self) -> None:
        """The client may take more, or wants its credit back (links on which it receives)."""

    def close_with(self, error: BrokerError) -> None:
        """Detach the link, or refuse it if it was not accepted yet."""
        if not self.is_closed:
            _log.debug("%s: detached from %r: %r", self._peer.name, self.path, str(error))
            self.closed()
            self._link.detach(amqp_error(error))
            self._peer.flush_soon()

    def closed(self) -> None:
        """The link is over; give back what it held."""
        if not self.is_closed:
            self.is_closed = True
            self._peer.forget(self._link)
            self._let_go()

    def _let_go(self) -> None:
        """What the kind of link holds."""
