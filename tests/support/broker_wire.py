"""An AMQP client in memory: frames straight into one connection of the broker, and its answers read back."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from local.broker.amqp.decoding import decode
from local.broker.amqp.encoding import encode
from local.broker.amqp.frames import AMQP_FRAME, AMQP_HEADER, encode_frame
from local.broker.amqp.message import (
    APPLICATION_PROPERTIES,
    Properties,
    RawMessage,
    encode_properties,
    encode_section_map,
)
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    decode_composite,
    encode_composite,
)
from local.broker.amqp.types import Symbol
from local.broker.auth import sign_sas
from local.broker.clock import ManualClock
from local.broker.faults import FaultPlan
from local.broker.namespace import Namespace
from local.broker.peer import Peer
from tests.support.broker import KEY, KEY_NAME

HOST = "sb://localhost"
#: Below the broker's frame size.
_PART = 60_000
_VALUE = b"\x00\x53\x77"


@dataclass
class Sent:
    """A frame the broker sent; an empty frame has no body."""

    body: Any
    payload: bytes = b""


@dataclass
class Answer:
    status: int
    description: str
    condition: str | None
    body: Any


class WireClient:
    def __init__(self, space: Namespace, clock: ManualClock, faults: FaultPlan | None = None) -> None:
        self.clock = clock
        self.faults = faults or FaultPlan()
        self.is_closed = self.is_reset = False
        self.frames: list[Sent] = []
        self._soon: list[Callable[[], None]] = []
        self._handles = itertools.count(1)
        self._deliveries = itertools.count()
        self._tokens_ready = False
        self._nodes: dict[str, int] = {}
        self.peer = Peer(space, self, faults=self.faults, clock=clock, soon=self._soon.append)

    # -- the broker's way out

    def write(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            if data[position : position + 4] == b"AMQP":
                position += 8
                continue
            size = int.from_bytes(data[position : position + 4], "big")
            if size == 8:
                self.frames.append(Sent(None))
            else:
                body, end = decode_composite(data, position + 8)
                self.frames.append(Sent(body, data[end : position + size]))
            position += size

    def close(self) -> None:
        self.is_closed = True

    def reset(self) -> None:
        self.is_reset = True

    # -- speaking

    def say(self, *performatives: Any, payload: bytes = b"") -> None:
        frames = [encode_frame(AMQP_FRAME, 0, encode_composite(p) + payload) for p in performatives]
        self.peer.receive(b"".join(frames))
        self.settle_down()

    def settle_down(self) -> None:
        while self._soon:
            self._soon.pop(0)()

    def tick(self, seconds: float) -> None:
        """Time passes, second by second."""
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            self.peer.tick(self.clock.now())
            self.settle_down()

    def heard(self, kind: type) -> list[Any]:
        return [sent.body for sent in self.frames if isinstance(sent.body, kind)]

    def last(self, kind: type) -> Any:
        return self.heard(kind)[-1]

    @property
    def error(self) -> Any:
        """The error of the connection's close, if it was closed."""
        closes = self.heard(Close)
        return closes[-1].error if closes else None

    # -- conversations

    def connect(self) -> WireClient:
        self.peer.receive(AMQP_HEADER)
        self.say(Open("client", max_frame_size=1024 * 1024), Begin(None, 0, 65_536, 65_536, 4096))
        return self

    def attach(self, path: str, role: bool, handle: int | None = None, **fields: Any) -> int:
        """The handle; whether the broker accepted is in `frames`."""
        handle = next(self._handles) if handle is None else handle
        fields.setdefault("source", Source(path))
        fields.setdefault("target", Target(path))
        if role is SENDER:
            fields.setdefault("initial_delivery_count", 0)
        self.say(Attach(f"link {handle}", handle, role, **fields))
        return handle

    def flow(self, handle: int, credit: int, *, delivery_count: int = 0, drain: bool = False) -> None:
        self.say(Flow(0, 65_536, 0, 65_536, handle, delivery_count, credit, drain=drain))

    def send(self, handle: int, message: bytes, *, message_format: int = 0, settled: bool = False) -> int:
        delivery = next(self._deliveries)
        parts = [message[start : start + _PART] for start in range(0, len(message), _PART)] or [b""]
        for index, part in enumerate(parts):
            transfer = Transfer(handle, delivery, delivery.to_bytes(4, "big"), message_format, settled)
            transfer.more = index + 1 < len(parts)
            self.say(transfer, payload=part)
        return delivery

    def settle(self, state: Any, *, settled: bool = False) -> None:
        """Settle the last message that came."""
        delivery = self.transfers()[-1].body.delivery_id
        self.say(Disposition(RECEIVER, delivery, delivery, settled, state))

    def outcome(self, delivery: int) -> Any:
        """What the broker made of a delivery; None while it has said nothing."""
        found = [d for d in self.heard(Disposition) if d.role is RECEIVER and d.first == delivery]
        return found[-1].state if found else None

    def transfers(self) -> list[Sent]:
        """Messages that came, replies of nodes left out."""
        return [s for s in self.frames if isinstance(s.body, Transfer) and len(s.body.delivery_tag or b"") != 8]

    def detached(self, handle: int) -> Any:
        """The error a link was detached with. The broker counts handles of its own, from 0, in the order of ours."""
        return next((d.error for d in self.heard(Detach) if d.handle == handle), None)

    # -- nodes

    def request(self, node: str, application: dict[str, object], body: object) -> RawMessage | None:
        """Ask `$cbs` or a `$management`; None when no answer came."""
        if node not in self._nodes:
            reply = self.attach(node, RECEIVER)
            self.flow(reply, 10_000)
            self._nodes[node] = self.attach(node, SENDER)
        message_id = uuid.uuid4()
        message = encode_properties(Properties(message_id=message_id, reply_to=node))
        message += encode_section_map(APPLICATION_PROPERTIES, dict(application)) + _VALUE + encode(body)
        self.send(self._nodes[node], message)
        for sent in self.frames:
            if isinstance(sent.body, Transfer):
                raw = RawMessage.parse(sent.payload)
                if raw.decode_properties().correlation_id == message_id:
                    return raw
        return None

    def put_token(
        self, path: str = "", *, key_name: str = KEY_NAME, key: str = KEY, lifetime_s: float = 3600.0
    ) -> int | None:
        """The status; the audience is the namespace or one entity of it."""
        audience = f"{HOST}/{path}"
        token = sign_sas(audience, key_name, key, int(self.clock.now() + lifetime_s))
        answer = self.request("$cbs", {"operation": "put-token", "type": "jwt", "name": audience}, token)
        return None if answer is None else answer.decode_application_properties()["status-code"]

    def manage(self, entity: str, operation: str, body: object) -> Answer | None:
        application: dict[str, object] = {"operation": operation, "type": "entity-mgmt"}
        answer = self.request(f"{entity}/$management", application, body)
        if answer is None:
            return None
        properties = answer.decode_application_properties()
        return Answer(
            properties["statusCode"],
            properties["statusDescription"],
            properties.get("errorCondition"),
            decode(answer.body, len(_VALUE))[0],
        )


def session_source(path: str, session_id: object) -> Source:
    return Source(path, filter={Symbol("com.microsoft:session-filter"): session_id})
