"""The coordinator link of a connection: on it a client declares and discharges transactions (AMQP 1.0, part 4)."""

from __future__ import annotations

from .amqp.codec import DecodeError
from .amqp.link import Delivery
from .amqp.message import RawMessage
from .amqp.performatives import Declare, Declared, DeliveryState, Discharge, decode_composite
from .errors import DECODE_ERROR, NOT_IMPLEMENTED, BrokerError
from .link_user import LinkUser
from .outcomes import ACCEPTED, rejected

COORDINATOR_CREDIT = 100
_VALUE_SECTION = b"\x00\x53\x77"


class CoordinatorLink(LinkUser):
    #: What it is allowed to do, the links of the entities decide.
    needs_token = False

    def open(self) -> None:
        self._link.accept()
        self._link.set_credit_window(COORDINATOR_CREDIT)

    def on_delivery(self, delivery: Delivery) -> None:
        try:
            outcome = self._act(_read(delivery.payload))
        except BrokerError as error:
            outcome = rejected(error)
        if not delivery.settled:
            self._peer.when_durable(lambda: delivery.settle(outcome))

    def _act(self, request: Declare | Discharge) -> DeliveryState:
        if isinstance(request, Discharge):
            self._peer.transactions.discharge(request.txn_id, fail=bool(request.fail))
            return ACCEPTED
        if request.global_id is not None:
            raise BrokerError(NOT_IMPLEMENTED, "Distributed transactions (global-id) are not supported.")
        return Declared(self._peer.transactions.declare())


def _read(payload: bytes) -> Declare | Discharge:
    try:
        body = RawMessage.parse(payload).body
        if body.startswith(_VALUE_SECTION):
            request, _ = decode_composite(body, len(_VALUE_SECTION))
            if isinstance(request, Declare | Discharge):
                return request
    except DecodeError as error:
        raise BrokerError(DECODE_ERROR, f"The request cannot be decoded: {error}") from error
    raise BrokerError(NOT_IMPLEMENTED, "A coordinator takes declare and discharge, each as the value of a message.")
