"""The link on which a client receives: messages of a queue, subscription or session, and what becomes of them."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .amqp.link import Delivery, Link
from .amqp.performatives import (
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from .amqp.types import Described, Symbol
from .delivery import encode_delivery
from .entities import Receivable
from .errors import (
    ARGUMENT_ERROR,
    INVALID_FIELD,
    NOT_ALLOWED,
    SESSION_LOCK_LOST,
    TIMEOUT,
    BrokerError,
)
from .faults import Point, Strike
from .link_user import LinkUser
from .message_queue import MessageQueue
from .outcomes import ACCEPTED, REJECTED, RELEASED, rejected
from .sessions import Session
from .store import StoredMessage

if TYPE_CHECKING:
    from .peer import Peer

_log = logging.getLogger(__name__)

#: How long an attach for the next free session waits when the client does not say (the service's default).
SESSION_WAIT_S = 60.0
SESSION_WAIT_MAX_S = 300.0
#: A link whose session lock ran out is told this much later: clients check their own clock first.
SESSION_LOST_GRACE_S = 3.0
SESSION_FILTER = Symbol("com.microsoft:session-filter")
SESSION_WAIT = Symbol("com.microsoft:timeout")
SESSION_LOCKED_UNTIL = Symbol("com.microsoft:locked-until-utc")
#: .NET ticks (100 ns since the year 1) at the Unix epoch.
TICKS_AT_EPOCH = 621_355_968_000_000_000
TICKS_PER_S = 10_000_000
_SETTLED_BY_SENDER = 1


class Outlet(LinkUser):
    """A link on which the client receives from a queue, subscription or sub-queue; with a session, from that session.

    The queue asks for `credit` and hands over at once; what then waits for a fault or for the disk counts against the
    credit, so that never more is promised than the client wants.
    """

    is_receiver = True

    def __init__(self, peer: Peer, link: Link, path: str, entity: Receivable, queue: MessageQueue) -> None:
        super().__init__(peer, link, path)
        self.deletes = link.snd_settle_mode == _SETTLED_BY_SENDER
        self._entity = entity
        self._queue = queue
        self._session: Session | None = None
        self._wants_session, self._session_id = session_filter(link)
        #: Handed over by the queue and not ready to leave yet.
        self._promised = 0
        #: Ready to leave, while the client has taken its credit back.
        self._unwanted: deque[tuple[bytes, bytes]] = deque()

    # -- opening

    def open(self) -> None:
        self._entity.check_can_receive()
        if self._queue.policy.requires_session and not self._wants_session:
            raise BrokerError(NOT_ALLOWED, f"'{self._queue.key}' requires sessions: accept one to receive from it.")
        if self._queue.forward is not None:
            raise BrokerError(NOT_ALLOWED, f"'{self._queue.key}' forwards its messages; receive from the destination.")
        self._entity.links.add(self)
        self._entity.touch()
        if self._wants_session:
            self._queue.accept_session(self, self._session_id, self._session_wait_s())
            return
        self._link.accept()
        self._queue.attach(self)

    def _session_wait_s(self) -> float:
        asked = self._link.properties.get(SESSION_WAIT)
        return min(asked / 1000.0, SESSION_WAIT_MAX_S) if isinstance(asked, int) else SESSION_WAIT_S

    def session_accepted(self, session: Session) -> None:
        self._peer.enter(self._accept_session, session)

    def _accept_session(self, session: Session) -> None:
        self._session = session
        source = self._link.source
        assert isinstance(source, Source), "the session filter was read from it"
        source = replace(source, filter={**(source.filter or {}), SESSION_FILTER: session.id})
        ticks = TICKS_AT_EPOCH + int(session.locked_until * TICKS_PER_S)
        self._link.accept(source=source, properties={SESSION_LOCKED_UNTIL: ticks})
        self._peer.flush_soon()

    def session_timed_out(self) -> None:
        error = BrokerError(TIMEOUT, "No session became available within the wait.")
        self._peer.enter(self.close_with, error)

    def session_lost(self, session: Session) -> None:
        self._session = None
        error = BrokerError(SESSION_LOCK_LOST, f"The lock on session '{session.id}' expired.")
        self._peer.later(SESSION_LOST_GRACE_S, lambda: self.close_with(error))

    # -- delivering

    @property
    def credit(self) -> int:
        return 0 if self.is_closed else self._link.credit - self._promised

    def on_flow(self) -> None:
        while self._unwanted and self._link.credit > 0:
            self._transfer(*self._unwanted.popleft())
        if self._session is not None:
            self._queue.pump_session(self._session)
        elif not self._wants_session:
            self._queue.pump()
        self._drain()

    def _drain(self) -> None:
        if self._link.drain and not self._promised:
            self._link.drained()
            self._peer.flush_soon()

    def deliver(self, message: StoredMessage) -> None:
        # The queue may be working for another connection: what goes wrong here must not end that one.
        self._peer.enter(self._deliver, message)

    def _deliver(self, message: StoredMessage) -> None:
        payload, tag = encode_delivery(message), message.lock_token or b""
        self._promised += 1
        self._peer.under_faults(Point.DELIVER, self._queue.key, lambda strike: self._send(payload, tag, strike))

    def _send(self, payload: bytes, tag: bytes, strike: Strike) -> None:
        if strike.error is not None:
            self.close_with(strike.error)
        elif self.deletes:
            # At most once: were the deletion not safe, a restart would bring the message back.
            self._peer.when_durable(lambda: self._keep_promise(payload, tag))
        else:
            self._keep_promise(payload, tag)

    def _keep_promise(self, payload: bytes, tag: bytes) -> None:
        self._promised -= 1
        if self.is_closed:
            return
        if self._link.credit > 0:
            self._transfer(payload, tag)
        else:
            self._unwanted.append((payload, tag))
        self._drain()

    def _transfer(self, payload: bytes, tag: bytes) -> None:
        self._link.send(payload, tag, settled=self.deletes).user = tag
        self._peer.flush_soon()

    # -- settling

    def on_update(self, delivery: Delivery, state: DeliveryState | None, settled: bool) -> None:
        self._peer.under_faults(
            Point.SETTLE, self._queue.key, lambda strike: self._settle(delivery, state, settled, strike)
        )

    def _settle(self, delivery: Delivery, state: DeliveryState | None, settled: bool, strike: Strike) -> None:
        if self.is_closed:
            return  # the client settles again by other means; doing it twice would tell it that the lock was lost
        if strike.detach and strike.error is not None:
            self.close_with(strike.error)
            return
        try:
            if strike.error is not None:
                raise strike.error
            self._peer.namespace.journal.check()
            if isinstance(state, TransactionalState):
                self._enlist(delivery, state, settled)
                return
            echo = self._apply(delivery.user, state, settled)
            _log.debug("%s: a message of %r settled: %s", self._peer.name, self.path, type(state).__name__.lower())
        except BrokerError as error:
            _log.debug("%s: settling a message of %r refused: %r", self._peer.name, self.path, str(error))
            if not settled:
                delivery.settle(rejected(error))
            return
        if strike.lose_answer:
            if strike.reset:
                self._peer.when_durable(self._peer.reset)
        elif not settled:
            self._peer.when_durable(lambda: delivery.settle(echo))

    def _enlist(self, delivery: Delivery, state: TransactionalState, settled: bool) -> None:
        """The message stays locked until the discharge settles it; after a roll-back until the lock runs out."""
        token, outcome = delivery.user, state.outcome
        if not isinstance(outcome, Accepted | Modified | Rejected | Released):
            raise BrokerError(ARGUMENT_ERROR, "A settlement under a transaction needs an outcome.")
        transaction = self._peer.transactions.find(state.txn_id)
        transaction.settle(self._queue, token, lambda: self._apply(token, outcome, True))
        if not settled:
            echo = REJECTED if isinstance(outcome, Rejected) else outcome
            delivery.settle(TransactionalState(state.txn_id, echo))

    def _apply(self, token: bytes, state: DeliveryState | None, settled: bool) -> DeliveryState | None:
        """Settle in the queue; the outcome to repeat to the client."""
        queue = self._queue
        if isinstance(state, Accepted):
            queue.complete(token)
            return ACCEPTED
        if isinstance(state, Released):
            queue.release(token)
            return RELEASED
        if isinstance(state, Modified):
            self._modify(token, state)
            return state
        if isinstance(state, Rejected):
            queue.dead_letter(token, *dead_letter_details(state))
            return REJECTED
        if state is None and settled:
            # Settled without an outcome: the receiver is done with it (AMQP 1.0, 2.6.12).
            queue.release(token)
            return None
        raise BrokerError(ARGUMENT_ERROR, f"A message cannot be settled as {type(state).__name__}.")

    def _modify(self, token: bytes, state: Modified) -> None:
        changes = {str(name): value for name, value in (state.message_annotations or {}).items()}
        if state.undeliverable_here:
            self._queue.defer(token, changes)
        elif state.delivery_failed:
            self._queue.abandon(token, changes)
        else:
            self._queue.release(token)

    # -- closing

    def _let_go(self) -> None:
        self._entity.links.discard(self)
        if self._wants_session:
            self._queue.release_session(self)
            return
        self._queue.detach(self)
        for _, tag in self._unwanted:
            if tag and self._queue.is_locked(tag):
                self._queue.release(tag)


def session_filter(link: Link) -> tuple[bool, str | None]:
    """Whether the receiver asks for a session, and for which (None = the next free one)."""
    filters: dict[Any, Any] = getattr(link.source, "filter", None) or {}
    if SESSION_FILTER not in filters:
        return False, None
    asked = filters[SESSION_FILTER]
    if isinstance(asked, Described):
        asked = asked.value
    if asked is not None and not isinstance(asked, str):
        raise BrokerError(INVALID_FIELD, "The session filter must be a string or null.")
    return True, asked


def dead_letter_details(state: Rejected) -> tuple[str | None, str | None, dict[str, object]]:
    """Reason, description, and other properties to set, from a rejected outcome."""
    error = state.error
    if error is None:
        return None, None, {}
    info = {str(name): value for name, value in (error.info or {}).items()}
    reason = info.pop("DeadLetterReason", None)
    description = info.pop("DeadLetterErrorDescription", None)
    changes = {name: value for name, value in info.items() if value is not None}
    return _text(reason), _text(description if description is not None else error.description), changes


def _text(value: object) -> str | None:
    return None if value is None else str(value)
