"""Transactions: sends and settlements that take effect together when they are discharged, or not at all.

AMQP 1.0, part 4. What a client does under a transaction is looked at when it comes and kept until the discharge; then
everything is looked at again, and if nothing stands against it, done in one turn of the loop, which the journal keeps
as one. A refusal on the way spoils the transaction: nothing of it will ever take effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .clock import Clock, Timer
from .content import Content
from .entities import Queue, Topic
from .errors import NOT_ALLOWED, NOT_FOUND, QUOTA_EXCEEDED, BrokerError
from .message_queue import MessageQueue
from .namespace import Namespace
from .partitioning import choose_partition, key_of

UNKNOWN_ID = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
TIMED_OUT = "amqp:transaction:timeout"

#: Service Bus gives a transaction two minutes, and a hundred messages (quotas).
TRANSACTION_S = 120.0
MESSAGES_MAX = 100
SETTLEMENTS_MAX = 1000
#: Transactions of one connection that are open, or whose end it has not asked about.
OPEN_MAX = 100
_ID_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Work:
    """One operation of a transaction: BrokerError from `check` stands against all of it; `act` does it."""

    check: Callable[[], None]
    act: Callable[[], object]


class Transaction:
    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._work: list[Work] = []
        self._messages = 0
        self._tokens: set[bytes] = set()
        #: Of sends to partitioned entities: all have this one key.
        self._key: str | None = None
        self._partition: int | None = None
        self.problem: BrokerError | None = None
        self.timer: Timer | None = None

    def send(self, entity: Queue | Topic, contents: Sequence[Content]) -> None:
        self._guarded(lambda: self._send(entity, contents))

    def settle(self, queue: MessageQueue, token: bytes, act: Callable[[], object]) -> None:
        self._guarded(lambda: self._settle(queue, token, act))

    def _guarded(self, step: Callable[[], None]) -> None:
        if self.problem is not None:
            raise self.problem
        try:
            step()
        except BrokerError as error:
            self.spoil(error)
            raise

    def spoil(self, error: BrokerError) -> None:
        if self.problem is None:
            self.problem = error
            self._work.clear()

    def _send(self, entity: Queue | Topic, contents: Sequence[Content]) -> None:
        if self._messages + len(contents) > MESSAGES_MAX:
            raise BrokerError(QUOTA_EXCEEDED, f"A transaction holds {MESSAGES_MAX} messages at most.")

        def check() -> None:
            if not self._namespace.is_alive(entity):
                raise BrokerError(NOT_FOUND, f"The messaging entity '{entity.path}' is gone.")
            entity.check_all(contents)

        check()
        for content in contents:
            self._check_key(entity, content)
        self._messages += len(contents)
        self._work.append(Work(check=check, act=lambda: entity.keep_all(contents)))

    def _check_key(self, entity: Queue | Topic, content: Content) -> None:
        """A transaction cannot span partitions: every message to a partitioned entity has the same key."""
        count = len(entity.inbox.partitions)
        if count == 1:
            return
        detects_duplicates = entity.inbox.policy.duplicate_window_s is not None
        index, key = choose_partition(content, count, detects_duplicates), key_of(content, detects_duplicates)
        if index is None or key is None:
            raise _invalid(
                f"a message to the partitioned entity '{entity.path}' needs a partition key or a session id when it is "
                "sent under a transaction"
            )
        if self._key is not None and key != self._key:
            raise _invalid(
                f"all messages to partitioned entities must have the same key under one transaction; '{key}' came "
                f"after '{self._key}'"
            )
        self._check_partition(index)
        self._key = key

    def _check_partition(self, index: int) -> None:
        if self._partition is not None and index != self._partition:
            raise _invalid("a transaction cannot span several partitions")
        self._partition = index

    def _settle(self, queue: MessageQueue, token: bytes, act: Callable[[], object]) -> None:
        if len(self._work) >= MESSAGES_MAX + SETTLEMENTS_MAX:
            raise BrokerError(QUOTA_EXCEEDED, f"A transaction holds {SETTLEMENTS_MAX} settlements at most.")
        message = queue.locked(token)
        if token in self._tokens:
            raise _invalid("a message can be settled once under a transaction")
        self._tokens.add(token)
        if len(queue.partitions) > 1:
            self._check_partition(message.partition)
        self._work.append(Work(check=lambda: _check_lock(queue, token), act=act))

    def commit(self) -> None:
        """All of it, or BrokerError and nothing."""
        if self.problem is not None:
            raise BrokerError(ROLLBACK, f"The transaction was rolled back: {self.problem.description}")
        try:
            self._namespace.journal.check()
            for work in self._work:
                work.check()
        except BrokerError as error:
            raise BrokerError(ROLLBACK, f"The transaction was rolled back: {error.description}") from error
        for work in self._work:
            work.act()


class Transactions:
    """Those of one connection. What is open when the connection ends is rolled back."""

    def __init__(self, namespace: Namespace, clock: Clock) -> None:
        self._namespace = namespace
        self._clock = clock
        self._open: dict[bytes, Transaction] = {}

    def declare(self) -> bytes:
        if len(self._open) >= OPEN_MAX:
            raise BrokerError(QUOTA_EXCEEDED, f"{OPEN_MAX} transactions are open on this connection.")
        number, transaction = os.urandom(_ID_BYTES), Transaction(self._namespace)
        text = f"It was not discharged within {TRANSACTION_S:.0f} seconds."
        error = BrokerError(TIMED_OUT, text)
        transaction.timer = self._clock.call_at(
            self._clock.now() + TRANSACTION_S, lambda: transaction.spoil(error)
        )
        self._open[number] = transaction
        return number

    def find(self, number: bytes) -> Transaction:
        transaction = self._open.get(bytes(number))
        if transaction is None:
            raise BrokerError(UNKNOWN_ID, "There is no such transaction on this connection, or it has ended.")
        return transaction

    def discharge(self, number: bytes, *, fail: bool) -> None:
        """Commit, or roll back; BrokerError when a commit became a roll-back."""
        transaction = self.find(number)
        del self._open[bytes(number)]
        if transaction.timer is not None:
            transaction.timer.cancel()
        if not fail:
            transaction.commit()

    def close(self) -> None:
        for transaction in self._open.values():
            if transaction.timer is not None:
                transaction.timer.cancel()
        self._open.clear()


def _check_lock(queue: MessageQueue, token: bytes) -> None:
    queue.locked(token)


def _invalid(text: str) -> BrokerError:
    return BrokerError(NOT_ALLOWED, f"InvalidOperation: {text}.")
