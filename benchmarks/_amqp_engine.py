"""What the AMQP engine itself costs, without sockets: microseconds of one core per operation.

`python -m benchmarks._amqp_engine` prints a table. The budget is 120 microseconds for one single-message send:
transfer in, disposition out, and now and then a flow.
"""

from __future__ import annotations

import platform
import timeit
from collections.abc import Callable
from itertools import count

from local.broker.amqp import Connection, DeliveryReceived, DeliveryUpdated, Link, LinkAttached, RawMessage, split_batch
from local.broker.amqp.codec import encode
from local.broker.amqp.frames import AMQP_FRAME, AMQP_HEADER, encode_frame
from local.broker.amqp.message import (
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    Properties,
    encode_properties,
    encode_section_map,
)
from local.broker.amqp.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    encode_composite,
)
from local.broker.amqp.types import Symbol

_ROUNDS, _REPEATS = 20_000, 5
_BODY_BYTES = 1024
_BATCH = 500
_CREDIT = 2**31
_TAG = b"0123456789abcdef"
_ACCEPTED = Accepted()

_MESSAGE = (
    encode_section_map(MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): "key"})
    + encode_properties(Properties(message_id="6e7ae2e2-90d5-47fc-b9a7-a4eb15a98cff", subject="s", group_id="g"))
    + encode_section_map(APPLICATION_PROPERTIES, {"a": 1, "b": "two"})
    + b"\x00\x53\x75"
    + encode(b"x" * _BODY_BYTES)
)


def _frame(performative: object, payload: bytes = b"") -> bytes:
    return encode_frame(AMQP_FRAME, 0, encode_composite(performative) + payload)


def _attached(role: bool) -> tuple[Connection, Link]:
    connection = Connection(container_id="bench")
    connection.receive_data(AMQP_HEADER + _frame(Open("client", max_frame_size=1024 * 1024)))
    connection.receive_data(_frame(Begin(None, 0, _CREDIT, _CREDIT)))
    events = connection.receive_data(_frame(Attach("link", 0, role, source=Source("q"), target=Target("q"))))
    link = next(event.link for event in events if isinstance(event, LinkAttached))
    link.accept()
    connection.data_to_send()
    return connection, link


def receive_and_settle() -> Callable[[], None]:
    connection, link = _attached(SENDER)
    link.set_credit_window(1000)
    transfer = _frame(Transfer(0, 500, b"\x00\x00\x01\x01", 0, False), _MESSAGE)

    def operation() -> None:
        for event in connection.receive_data(transfer):
            if isinstance(event, DeliveryReceived):
                event.delivery.settle(_ACCEPTED)
        connection.data_to_send()

    return operation


def send_and_be_settled() -> Callable[[], None]:
    connection, link = _attached(RECEIVER)
    connection.receive_data(_frame(Flow(0, _CREDIT, 0, 1, 0, 0, _CREDIT)))
    ids = count()

    def operation() -> None:
        link.send(_MESSAGE, _TAG)
        connection.data_to_send()
        number = next(ids)
        for event in connection.receive_data(_frame(Disposition(RECEIVER, number, number, False, _ACCEPTED))):
            if isinstance(event, DeliveryUpdated):
                event.delivery.settle(event.state)
        connection.data_to_send()

    return operation


def main() -> None:
    raw = RawMessage.parse(_MESSAGE)
    batch = (b"\x00\x53\x75" + encode(_MESSAGE)) * _BATCH
    operations: list[tuple[str, Callable[[], object], int]] = [
        ("receive a 1 KB message and accept it", receive_and_settle(), _ROUNDS),
        ("send a 1 KB message, read its outcome, settle it", send_and_be_settled(), _ROUNDS),
        ("split a message into sections", lambda: RawMessage.parse(_MESSAGE), _ROUNDS),
        ("decode its properties", raw.decode_properties, _ROUNDS),
        ("decode its application properties", raw.decode_application_properties, _ROUNDS),
        ("decode its annotations", raw.decode_message_annotations, _ROUNDS),
        (f"split a batch of {_BATCH} messages", lambda: split_batch(batch), _ROUNDS // _BATCH),
    ]
    print(f"Python {platform.python_version()}, {platform.machine()}; best of {_REPEATS}")
    for name, operation, rounds in operations:
        best = min(timeit.repeat(operation, number=rounds, repeat=_REPEATS)) / rounds
        print(f"{best * 1e6:9.1f} us  {name}")


if __name__ == "__main__":
    main()
