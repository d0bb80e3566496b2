"""Transactions with Proton: a coordinator link, and sends and settlements that carry a transaction's id."""

from __future__ import annotations

from typing import Any

from proton import Delivery, Described, Message, Terminus, symbol, ulong
from proton.reactor import LinkOption

from .client import ProtonClient

TRANSACTIONAL = 0x34
_OUTCOMES = {"accepted": 0x24, "rejected": 0x25, "released": 0x26, "modified": 0x27}


class _ToCoordinator(LinkOption):  # type: ignore[misc]
    def apply(self, link: Any) -> None:
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))


class Refused(Exception):
    """The broker's word against a request: condition and description."""


class Transacting:
    """One connection's transactions."""

    def __init__(self, client: ProtonClient) -> None:
        self._connection = client.connection
        self._coordinator = self._connection.create_sender(None, name="coordinator", options=_ToCoordinator())

    def declare(self) -> bytes:
        delivery = self.ask("amqp:declare:list", [None])
        return bytes(delivery.remote.data[0])

    def discharge(self, transaction: bytes, *, fail: bool) -> None:
        self.ask("amqp:discharge:list", [transaction, fail])

    def commit(self, transaction: bytes) -> None:
        self.discharge(transaction, fail=False)

    def rollback(self, transaction: bytes) -> None:
        self.discharge(transaction, fail=True)

    def send(self, sender: Any, message: Message, transaction: bytes) -> None:
        delivery = sender.link.send(message)
        delivery.local.data = [transaction]
        delivery.update(TRANSACTIONAL)
        self._settled(delivery)

    def settle(self, receiver: Any, transaction: bytes, outcome: str = "accepted") -> None:
        """The message that was received last."""
        delivery = receiver.fetcher.unsettled[-1]
        delivery.local.data = [transaction, Described(ulong(_OUTCOMES[outcome]), [])]
        delivery.update(TRANSACTIONAL)
        self._settled(delivery)

    def ask(self, descriptor: str, fields: list[Any]) -> Any:
        return self._settled(self._coordinator.link.send(Message(body=Described(symbol(descriptor), fields))))

    def _settled(self, delivery: Any) -> Any:
        self._connection.wait(lambda: delivery.settled, msg="an answer")
        condition = delivery.remote.condition
        if delivery.remote_state == Delivery.REJECTED:
            raise Refused(f"{condition.name}: {condition.description}" if condition else "rejected")
        return delivery
