"""One AMQP connection of a client: engine events in, links and their entities behind.

Bytes come from and go to a `Wire`; nothing here knows about sockets. This is also where a mistake of the broker itself
stops: it is logged and ends the one connection it happened on (`enter`), no other.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol

from .amqp.connection import Connection
from .amqp.events import (
    ConnectionClosed,
    ConnectionFailed,
    DeliveryReceived,
    DeliveryUpdated,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    SessionEnded,
)
from .amqp.frames import EMPTY_FRAME
from .amqp.link import Link
from .cbs import TokenBook
from .clock import Clock
from .errors import CONNECTION_FORCED, BrokerError
from .faults import CALM, FaultPlan, Point, Strike
from .frame_meter import FrameMeter
from .link_user import LinkUser
from .namespace import Namespace, path_of
from .nodes import CBS, ReplyLink
from .outcomes import amqp_error, internal_error
from .routing import user_for
from .transactions import Transactions

#: A connection that shows no token within this time is closed (the service does the same).
TOKEN_WAIT_S = 20.0
#: How often live links are compared with the tokens they came in on.
TOKEN_CHECK_S = 5.0
#: Something is sent at least this often on a connection with links. Some clients hold a lock while they wait for a
#: frame, whatever it is, and cannot send before it comes.
KEEP_ALIVE_S = 5.0

_log = logging.getLogger(__name__)
_NUMBERS = itertools.count(1)
_Arguments = ParamSpec("_Arguments")


class Wire(Protocol):
    """The way to the client."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """After what was written has left."""
        ...

    def reset(self) -> None:
        """At once, as a broken network would."""
        ...


class Peer:
    def __init__(
        self,
        namespace: Namespace,
        wire: Wire,
        *,
        faults: FaultPlan,
        clock: Clock,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.namespace = namespace
        #: For log lines.
        self.name = f"{namespace.name} #{next(_NUMBERS)}"
        self.tokens = TokenBook(namespace)
        self.transactions = Transactions(namespace, clock)
        self.reply_links: list[ReplyLink] = []
        self._connection = Connection(container_id=namespace.name)
        self._wire = wire
        self._faults = faults
        self._clock = clock
        self._soon = soon
        self._meter = FrameMeter()
        self._flush_is_due = False
        self._is_receiving = False
        self._is_gone = False
        self._users: dict[Link, LinkUser] = {}
        self._born_at = self._written_at = self._tokens_checked_at = clock.now()
        #: When the last delayed operation of each kind is done; later ones must not overtake it.
        self._busy_until: dict[Point, float] = {}
        _log.debug("%s: connected", self.name)

    # -- bytes

    @property
    def frames_received(self) -> int:
        return self._meter.count

    def receive(self, data: bytes) -> None:
        self._meter.feed(data)
        self._is_receiving = True
        self.enter(self._receive, data)
        self._is_receiving = False
        self.flush()

    def _receive(self, data: bytes) -> None:
        for event in self._connection.receive_data(data):
            if self._is_gone:
                return
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)

    def flush(self) -> None:
        self._flush_is_due = False
        if self._is_gone:
            return
        data = self._connection.data_to_send()
        if data:
            self._written_at = self._clock.now()
            self._wire.write(data)
        if self._connection.closed:
            self._wire.close()

    def flush_soon(self) -> None:
        """Once for all that happens in this turn of the loop."""
        if not (self._flush_is_due or self._is_receiving or self._is_gone):
            self._flush_is_due = True
            self._soon(self.flush)

    def tick(self, now: float) -> None:
        """What time asks of the connection; called about once a second."""
        self.enter(self._tick, now)
        self.flush()

    def _tick(self, now: float) -> None:
        self._connection.tick(now)
        if not self._connection.is_open:
            return
        if now >= self._tokens_checked_at + TOKEN_CHECK_S:
            self._tokens_checked_at = now
            self._check_tokens(now)
        if self._users and now >= self._written_at + KEEP_ALIVE_S:
            self._connection.write(EMPTY_FRAME)

    # -- the end

    def reset(self) -> None:
        self.gone()
        self._wire.reset()

    def gone(self) -> None:
        """The connection is no more: everything it held is given back."""
        if not self._is_gone:
            self._is_gone = True
            _log.debug("%s: gone", self.name)
            self.transactions.close()
            self._close_users()

    def _close_users(self) -> None:
        for user in list(self._users.values()):
            try:
                user.closed()
            except Exception:
                # One link that cannot be given back must not keep the others.
                _log.exception("The link to '%s' could not be closed properly.", user.path)
        self._users.clear()

    def enter(self, action: Callable[_Arguments, None], *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        """Run a piece of this connection's work, whoever asked for it. A mistake in it ends this connection only."""
        if self._is_gone:
            return
        try:
            action(*args, **kwargs)
        except Exception as error:
            _log.exception("A connection of namespace '%s' is closed: the broker failed.", self.namespace.name)
            self._close_users()
            self._connection.close(amqp_error(internal_error(error)))
            self.flush_soon()

    # -- what links ask of their connection

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """After a while, if the connection is still there."""
        self._clock.call_at(self._clock.now() + delay_s, self._act_soon(action))

    def when_durable(self, action: Callable[[], None]) -> None:
        self.namespace.journal.when_durable(self._act_soon(action))

    def _act_soon(self, action: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            self.enter(action)
            self.flush_soon()

        return act

    def under_faults(
        self, point: Point, entity: str | None, action: Callable[[Strike], None], direction: str = ""
    ) -> None:
        """Run an operation, or whatever the faults that are set make of it."""
        if not self._faults.rules and not self._busy_until:
            action(CALM)
            return
        strike = self._faults.at(point, self.namespace.name, entity, direction)
        if strike.crash:
            os.kill(os.getpid(), signal.SIGKILL)
        if strike.reset and not strike.lose_answer:
            self.reset()
        elif strike.held_by is not None:
            strike.held_by.hold(self._act_soon(lambda: action(strike)))
        elif not strike.dropped:
            self._in_turn(point, strike.delay_s, lambda: action(strike))

    def _in_turn(self, point: Point, delay_s: float, action: Callable[[], None]) -> None:
        """After the delay, and not before earlier operations of the kind: a slow connection keeps its order."""
        now = self._clock.now()
        self._busy_until = {point: until for point, until in self._busy_until.items() if until > now}
        due = max(now + delay_s, self._busy_until.get(point, now))
        if due <= now:
            action()
            return
        self._busy_until[point] = due + _ONE_AFTER_ANOTHER_S
        self._clock.call_at(due, self._act_soon(action))

    def reply_link_for(self, request: Link, reply_to: str | None) -> ReplyLink | None:
        """By the address the client gave its receiver, else the receiver on the same session and node."""
        node = str(getattr(request.target, "address", "") or "")
        for link in self.reply_links:
            if reply_to and reply_to != node and link.target_address == reply_to:
                return link
        for link in self.reply_links:
            if link.session is request.session and link.source_address == node:
                return link
        return None

    def forget(self, link: Link) -> None:
        self._users.pop(link, None)

    # -- tokens

    def _check_tokens(self, now: float) -> None:
        """A link whose token ran out and was not renewed is closed; so is a connection that never had one."""
        if self.tokens.is_empty and now >= self._born_at + TOKEN_WAIT_S:
            error = BrokerError(CONNECTION_FORCED, f"No token was put within {TOKEN_WAIT_S:.0f} seconds.")
            self._close_users()
            self._connection.close(amqp_error(error))
            return
        for user in [user for user in self._users.values() if user.needs_token]:
            try:
                self.tokens.require_any(user.path)
            except BrokerError as error:
                user.close_with(error)

    # -- events

    def _on_delivery(self, event: DeliveryReceived) -> None:
        user = self._users.get(event.link)
        if user is not None:
            user.on_delivery(event.delivery)

    def _on_update(self, event: DeliveryUpdated) -> None:
        user = self._users.get(event.link)
        if user is not None:
            user.on_update(event.delivery, event.state, event.settled)

    def _on_flow(self, event: LinkFlow) -> None:
        user = self._users.get(event.link)
        if user is not None:
            user.on_flow()

    def _on_detached(self, event: LinkDetached) -> None:
        self._close_link(event.link)

    def _on_links_over(self, event: SessionEnded | ConnectionClosed) -> None:
        for link in event.links:
            self._close_link(link)

    def _close_link(self, link: Link) -> None:
        user = self._users.get(link)
        if user is not None:
            user.closed()

    def _on_attached(self, event: LinkAttached) -> None:
        link = event.link
        terminus = link.source if link.is_sender else link.target
        path = path_of(str(getattr(terminus, "address", "") or ""))
        if path.lower() == CBS:
            self._open(link, path, CALM)
            return
        entity, _, node = path.partition("/$management")
        direction = "" if node else "receive" if link.is_sender else "send"
        self.under_faults(Point.ATTACH, entity, lambda strike: self._open(link, path, strike), direction)

    def _open(self, link: Link, path: str, strike: Strike) -> None:
        if link.is_gone:
            return  # the client did not wait for a delayed answer
        try:
            if strike.error is not None:
                raise strike.error
            user = self._users[link] = user_for(self, link, path)
            user.open()
            _log.debug("%s: attached to %s %r", self.name, "receive from" if link.is_sender else "send to", path)
        except BrokerError as error:
            _log.debug("%s: %r refused: %r", self.name, path, str(error))
            self._close_link(link)
            link.refuse(amqp_error(error))


#: Keeps delayed operations apart in time: timers due at the same instant fire in any order.
_ONE_AFTER_ANOTHER_S = 1e-5

_HANDLERS: dict[type, Callable[[Peer, Any], None]] = {
    DeliveryReceived: Peer._on_delivery,
    DeliveryUpdated: Peer._on_update,
    LinkFlow: Peer._on_flow,
    LinkAttached: Peer._on_attached,
    LinkDetached: Peer._on_detached,
    SessionEnded: Peer._on_links_over,
    ConnectionClosed: Peer._on_links_over,
    ConnectionFailed: Peer._on_links_over,
}
