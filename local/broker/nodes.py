"""The request-response nodes of a connection, `$cbs` and `$management`: request links, reply links, who answers."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from .amqp.codec import DecodeError, decode, encode
from .amqp.link import Delivery, Link
from .amqp.message import APPLICATION_PROPERTIES, Properties, RawMessage, encode_properties, encode_section_map
from .amqp.types import Int, Symbol
from .cbs import PutTokenAnswer
from .errors import DECODE_ERROR, QUOTA_EXCEEDED, BrokerError
from .faults import Point, Strike
from .link_user import LinkUser
from .management import Answer, Node, error_answer, handle
from .namespace import path_of
from .outcomes import ACCEPTED, rejected

if TYPE_CHECKING:
    from .peer import Peer

CBS = "$cbs"
REQUEST_CREDIT = 100
#: Replies held for a client that grants no credit; past that its link is closed.
REPLIES_MAX = 1000
_VALUE_SECTION = b"\x00\x53\x77"
_log = logging.getLogger(__name__)


class ReplyLink(LinkUser):
    """A link on which replies leave, as credit allows."""

    def __init__(self, peer: Peer, link: Link, path: str) -> None:
        super().__init__(peer, link, path)
        self.needs_token = path.lower() != CBS
        self._waiting: deque[bytes] = deque()
        self._sent = 0

    @property
    def session(self) -> object:
        return self._link.session

    @property
    def source_address(self) -> str:
        return str(getattr(self._link.source, "address", "") or "")

    @property
    def target_address(self) -> str:
        return str(getattr(self._link.target, "address", "") or "")

    def open(self) -> None:
        self._peer.reply_links.append(self)
        self._link.accept()

    def send(self, payload: bytes) -> None:
        if len(self._waiting) >= REPLIES_MAX:
            self.close_with(BrokerError(QUOTA_EXCEEDED, f"{REPLIES_MAX} replies wait for credit."))
            return
        self._waiting.append(payload)
        self.on_flow()

    def on_flow(self) -> None:
        while self._waiting and self._link.credit > 0:
            self._sent += 1
            self._link.send(self._waiting.popleft(), self._sent.to_bytes(8, "big"), settled=True)
        if self._link.drain:
            self._link.drained()
        self._peer.flush_soon()

    def _let_go(self) -> None:
        self._peer.reply_links.remove(self)
        self._waiting.clear()


class RequestLink(LinkUser):
    """A link on which requests arrive. Each is settled accepted first: clients wait for that before the reply."""

    def open(self) -> None:
        self._link.accept()
        self._link.set_credit_window(REQUEST_CREDIT)

    def on_delivery(self, delivery: Delivery) -> None:
        try:
            message = RawMessage.parse(delivery.payload)
            properties = message.decode_properties()
            application = {str(name): value for name, value in message.decode_application_properties().items()}
            body = _body_value(message)
        except DecodeError as error:
            if not delivery.settled:
                delivery.settle(rejected(BrokerError(DECODE_ERROR, f"The request cannot be decoded: {error}")))
            return
        if not delivery.settled:
            delivery.settle(ACCEPTED)
        self.answer(properties, application, body)

    def answer(self, request: Properties, application: dict[str, Any], body: object) -> None:
        raise NotImplementedError

    def reply(self, request: Properties, application: dict[object, object], body: object) -> None:
        properties = Properties(correlation_id=request.message_id)
        payload = encode_properties(properties) + encode_section_map(APPLICATION_PROPERTIES, application)
        payload += _VALUE_SECTION + encode(body)
        link = self._peer.reply_link_for(self._link, request.reply_to)
        if link is None:
            _log.info("A request to '%s' has no link for its reply; it stays unanswered.", self.path)
        else:
            link.send(payload)


class CbsRequests(RequestLink):
    needs_token = False

    def answer(self, request: Properties, application: dict[str, Any], body: object) -> None:
        entity = path_of(str(application.get("name") or ""))

        def put(strike: Strike) -> None:
            if strike.error is not None:
                answer = PutTokenAnswer(status=401, description=strike.error.description)
            else:
                answer = self._peer.tokens.put(application.get("operation"), application.get("name"), body)
            self.reply(request, {"status-code": Int(answer.status), "status-description": answer.description}, None)

        self._peer.under_faults(Point.CBS, entity, put)


class ManagementRequests(RequestLink):
    def __init__(self, peer: Peer, link: Link, path: str, node: Node) -> None:
        super().__init__(peer, link, path)
        self._node = node

    def answer(self, request: Properties, application: dict[str, Any], body: object) -> None:
        operation = application.get("operation")
        self._peer.under_faults(
            Point.MANAGEMENT, self._node.key, lambda strike: self._manage(request, operation, body, strike)
        )

    def _manage(self, request: Properties, operation: object, body: object, strike: Strike) -> None:
        if strike.error is not None:
            answer = error_answer(strike.error)
        else:
            answer = handle(self._node, operation, body, lambda right: self._peer.tokens.require(self.path, right))
        if strike.lose_answer:
            if strike.reset:
                self._peer.when_durable(self._peer.reset)
            return
        self._peer.when_durable(lambda: self._respond(request, answer))

    def _respond(self, request: Properties, answer: Answer) -> None:
        application: dict[object, object] = {
            "statusCode": Int(answer.status),
            "statusDescription": answer.description,
        }
        if answer.condition is not None:
            application["errorCondition"] = Symbol(answer.condition)
        self.reply(request, application, answer.body if answer.body is not None else {})


def _body_value(message: RawMessage) -> Any:
    """The value of an amqp-value body; None when the message has another kind of body or none."""
    if not message.body.startswith(_VALUE_SECTION):
        return None
    return decode(message.body, len(_VALUE_SECTION))[0]
