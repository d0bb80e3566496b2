"""A scripted client: says what it is told to, byte by byte if need be, and reads every answer back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from local.broker.amqp import Connection, Event, Limits, Link, LinkAttached
from local.broker.amqp.frames import AMQP_FRAME, AMQP_HEADER, SASL_FRAME, SASL_HEADER, encode_frame
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
    Transfer,
    decode_composite,
    encode_composite,
)


@dataclass
class Sent:
    """One frame the engine sent."""

    channel: int
    body: Any
    payload: bytes = b""


@dataclass
class Peer:
    connection: Connection = field(default_factory=lambda: Connection(container_id="broker"))

    @classmethod
    def limited(cls, max_frame_size: int = 65_536, **limits: Any) -> Peer:
        return cls(Connection(container_id="broker", max_frame_size=max_frame_size, limits=Limits(**limits)))

    def say(self, performative: Any, payload: bytes = b"", channel: int = 0) -> list[Event]:
        return self.connection.receive_data(frame_of(performative, payload, channel))

    def hear(self) -> list[Sent]:
        """Everything sent since the last call, as frames; protocol headers are skipped."""
        return read_frames(self.connection.data_to_send())

    def bodies(self) -> list[Any]:
        return [sent.body for sent in self.hear()]

    def authenticate(self, mechanism: str = "ANONYMOUS") -> list[Event]:
        init = encode_frame(SASL_FRAME, 0, encode_composite(SaslInit(mechanism)))
        return self.connection.receive_data(SASL_HEADER + init)

    def open(self, max_frame_size: int = 1024 * 1024, **fields: Any) -> list[Event]:
        """Headers, SASL and open."""
        self.authenticate()
        opened = Open("client", max_frame_size=max_frame_size, **fields)
        return self.connection.receive_data(AMQP_HEADER + frame_of(opened))

    def begin(self, incoming_window: int = 65_536, channel: int = 0, **fields: Any) -> None:
        self.say(Begin(None, 0, incoming_window, 65_536, **fields), channel=channel)

    def attach(self, role: bool, handle: int = 1, name: str = "", channel: int = 0, **fields: Any) -> Link:
        """An attach the engine has reported and not answered."""
        fields = {"source": Source("queue"), "target": Target("queue"), **fields}
        events = self.say(Attach(name or f"link-{handle}", handle, role, **fields), channel=channel)
        attached = [event.link for event in events if isinstance(event, LinkAttached)]
        return attached[-1]

    def credit(self, link_credit: int, handle: int = 1, delivery_count: int = 0, **fields: Any) -> list[Event]:
        flow = Flow(0, 65_536, 0, 65_536, handle, delivery_count, link_credit)
        for name, value in fields.items():
            setattr(flow, name, value)
        return self.say(flow)

    def transfer(self, payload: bytes, delivery_id: int | None = 0, handle: int = 1, **fields: Any) -> list[Event]:
        fields = {"delivery_tag": b"tag", "message_format": 0, **fields}
        return self.say(Transfer(handle, delivery_id, **fields), payload)


def frame_of(performative: Any, payload: bytes = b"", channel: int = 0) -> bytes:
    return encode_frame(AMQP_FRAME, channel, encode_composite(performative) + payload)


def read_frames(data: bytes) -> list[Sent]:
    frames = []
    pos = 0
    while pos < len(data):
        if data[pos : pos + 4] == b"AMQP":
            pos += 8
            continue
        size = int.from_bytes(data[pos : pos + 4], "big")
        if size > 8:
            body, end = decode_composite(data, pos + 8)
            frames.append(Sent(int.from_bytes(data[pos + 6 : pos + 8], "big"), body, data[end : pos + size]))
        else:
            frames.append(Sent(0, None))
        pos += size
    return frames


def open_peer(**limits: Any) -> Peer:
    """A peer with a session on channel 0."""
    peer = Peer.limited(**limits)
    peer.open()
    peer.begin()
    peer.hear()
    return peer


def sending_peer(credit: int = 100, **limits: Any) -> tuple[Peer, Link]:
    """A peer that may send on handle 1, and our end of that link."""
    peer = open_peer(**limits)
    link = peer.attach(SENDER)
    link.accept()
    link.grant_credit(credit)
    peer.hear()
    return peer, link


def receiving_peer(
    credit: int = 100, max_frame_size: int = 1024 * 1024, window: int = 65_536, **limits: Any
) -> tuple[Peer, Link]:
    """A peer that receives on handle 1 and gave credit, and our end of that link."""
    peer = Peer.limited(**limits)
    peer.open(max_frame_size=max_frame_size)
    peer.begin(incoming_window=window)
    link = peer.attach(RECEIVER)
    link.accept()
    peer.credit(credit, incoming_window=window)
    peer.hear()
    return peer, link
