"""The link on which a client sends: messages into an entity, at once or under a transaction."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .amqp.link import Delivery, Link
from .amqp.message import BATCH_MESSAGE_FORMAT, split_batch
from .amqp.performatives import TransactionalState
from .content import Content
from .entities import Queue, Topic
from .errors import DECODE_ERROR, MESSAGE_SIZE_EXCEEDED, BrokerError
from .faults import Point, Strike
from .link_user import LinkUser
from .outcomes import ACCEPTED, rejected

if TYPE_CHECKING:
    from .peer import Peer

_log = logging.getLogger(__name__)

#: Messages a sender may have on the way at once.
INTAKE_CREDIT = 1000


class Intake(LinkUser):
    """A link on which the client sends to a queue or topic."""

    is_receiver = False

    def __init__(self, peer: Peer, link: Link, path: str, entity: Queue | Topic) -> None:
        super().__init__(peer, link, path)
        self._entity = entity
        self._bytes_max = peer.namespace.message_bytes_max(entity)

    def open(self) -> None:
        self._entity.check_status()
        self._entity.links.add(self)
        self._entity.touch()
        self._link.accept(max_message_size=self._bytes_max)
        self._link.set_credit_window(INTAKE_CREDIT)

    def on_delivery(self, delivery: Delivery) -> None:
        self._peer.under_faults(Point.SEND, self._entity.path, lambda strike: self._take(delivery, strike))

    def _take(self, delivery: Delivery, strike: Strike) -> None:
        if self.is_closed:
            return
        if strike.detach and strike.error is not None:
            self.close_with(strike.error)
            return
        try:
            if strike.error is not None:
                raise strike.error
            if isinstance(delivery.state, TransactionalState):
                self._enlist(delivery, delivery.state.txn_id)
                return
            delay_s = self._store(delivery)
        except BrokerError as error:
            _log.debug("%s: a send to %r refused: %r", self._peer.name, self.path, str(error))
            if not delivery.settled:
                delivery.settle(rejected(error))
            return
        if strike.lose_answer:
            if strike.reset:
                self._peer.when_durable(self._peer.reset)
        elif not delivery.settled:
            self._peer.when_durable(lambda: self._accept(delivery, delay_s))

    def _enlist(self, delivery: Delivery, transaction: bytes) -> None:
        """Kept for the discharge; what is accepted is that it will be a part of it."""
        self._peer.transactions.find(transaction).send(self._entity, self._checked(delivery))
        delivery.settle(TransactionalState(transaction, ACCEPTED))

    def _accept(self, delivery: Delivery, delay_s: float) -> None:
        if delay_s > 0:
            self._peer.later(delay_s, lambda: self._accept(delivery, 0.0))
        elif not self.is_closed:
            _log.debug("%s: a send to %r accepted", self._peer.name, self.path)
            delivery.settle(ACCEPTED)

    def _store(self, delivery: Delivery) -> float:
        """All of a batch or nothing of it; how much later it is to be answered."""
        contents, entity = self._checked(delivery), self._entity
        if len(contents) == 1:
            return entity.answer_delay_s(contents, (entity.send(contents[0]),))
        return entity.answer_delay_s(contents, entity.send_all(contents))

    def _checked(self, delivery: Delivery) -> list[Content]:
        """The messages, if they are of a size that is taken and can be kept."""
        size, entity = len(delivery.payload), self._entity
        if size > self._bytes_max:
            raise BrokerError(
                MESSAGE_SIZE_EXCEEDED,
                f"The message or batch has {size} bytes; '{entity.path}' takes {self._bytes_max}.",
            )
        self._peer.namespace.journal.check()
        entity.touch()
        return self._contents(delivery)

    @staticmethod
    def _contents(delivery: Delivery) -> list[Content]:
        if delivery.message_format != BATCH_MESSAGE_FORMAT:
            return [Content.parse(delivery.payload)]
        try:
            parts = split_batch(delivery.payload)
        except ValueError as error:
            raise BrokerError(DECODE_ERROR, f"The batch cannot be decoded: {error}") from error
        return [Content.parse(part) for part in parts]

    def _let_go(self) -> None:
        self._entity.links.discard(self)
