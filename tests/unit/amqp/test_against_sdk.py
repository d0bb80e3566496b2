"""The Azure SDK's own encoder and decoder as independent judges of ours."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from azure.servicebus._pyamqp import endpoints, outcomes
from azure.servicebus._pyamqp import performatives as sdk
from azure.servicebus._pyamqp._decode import decode_frame, decode_payload
from azure.servicebus._pyamqp._encode import encode_frame as sdk_encode_frame
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp.error import AMQPError
from azure.servicebus._pyamqp.message import Header as SdkHeader
from azure.servicebus._pyamqp.message import Message as SdkMessage
from azure.servicebus._pyamqp.message import Properties as SdkProperties

from local.broker.amqp import (
    BATCH_MESSAGE_FORMAT,
    ConnectionClosed,
    ConnectionOpened,
    DeliveryReceived,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    SessionEnded,
    split_batch,
)
from local.broker.amqp.codec import encode
from local.broker.amqp.frames import AMQP_HEADER, SASL_HEADER, encode_disposition, encode_transfers, transfer_head
from local.broker.amqp.message import (
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    RawMessage,
    encode_header,
    encode_properties,
    encode_section_map,
)
from local.broker.amqp.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Modified,
    Open,
    Rejected,
    SaslOutcome,
    Source,
    Target,
    decode_composite,
    encode_composite,
)
from local.broker.amqp.types import Array, Int, Symbol, Timestamp
from tests.unit.amqp.peer import Peer

# The SDK gives its named tuples their defaults at run time, where a type checker does not see them.
SdkSource: Any = endpoints.Source
SdkTarget: Any = endpoints.Target
SdkModified: Any = outcomes.Modified
SdkRejected: Any = outcomes.Rejected


def sdk_frame(performative: Any, channel: int = 0) -> bytes:
    header, body = sdk_encode_frame(performative)
    return bytes(header) + channel.to_bytes(2, "big") + bytes(body or b"")


def judged(performative: Any) -> list[Any]:
    """What the SDK reads in a frame body of ours."""
    _, fields = decode_frame(memoryview(encode_composite(performative)))
    return list(fields)


SDK_ATTACH = sdk.AttachFrame(
    name="link",
    handle=1,
    role=True,
    send_settle_mode=0,
    rcv_settle_mode=1,
    source=SdkSource(address="amqps://host/q", filters={b"com.microsoft:session-filter": "s1"}),
    target=SdkTarget(address="receiver-link"),
    unsettled=None,
    incomplete_unsettled=None,
    initial_delivery_count=None,
    max_message_size=1_048_576,
    offered_capabilities=None,
    desired_capabilities=["cap"],
    properties={"com.microsoft:receiver-name": "r"},
)


def test_the_sdks_open_begin_attach_and_flow_are_understood() -> None:
    peer = Peer()
    opened = sdk.OpenFrame("client", "host", 1_048_576, 65_535, None, None, None, None, None, {"product": "p"})
    begin = sdk.BeginFrame(None, 0, 65_536, 65_536, 4_294_967_295, None, None, None)
    flow = sdk.FlowFrame(0, 65_536, 0, 65_536, 1, 0, 300, None, None, None, None)
    script = AMQP_HEADER + sdk_frame(opened) + sdk_frame(begin) + sdk_frame(SDK_ATTACH)
    events = peer.connection.receive_data(script)
    assert [type(event) for event in events] == [ConnectionOpened, LinkAttached]
    assert isinstance(events[1], LinkAttached)
    link = events[1].link
    assert isinstance(link.source, Source)
    assert link.source.address == "amqps://host/q"
    assert link.source.filter == {"com.microsoft:session-filter": "s1"}
    assert link.properties == {"com.microsoft:receiver-name": "r"}
    link.accept()
    assert peer.connection.receive_data(sdk_frame(flow)) == [LinkFlow(link)]
    assert link.credit == 300


#: Recorded from azure-servicebus 7.15.0: what it wrote on its socket for one send and one batch of two.
RECORDED_SASL_INIT = bytes.fromhex("0000002602010000005341c01903a309414e4f4e594d4f5553a000a1093132372e302e302e31")
RECORDED_BEGIN = bytes.fromhex("0000002202000001005311c0150840437000010000700001000070ffffffff404040")
RECORDED_ATTACH = bytes.fromhex(
    "000000b002000001005312c0a30ea12465333366653532382d333739622d343033652d626639372d65313539336436633864"
    "61375203560050005001005328c03d0ba13073656e6465722d6c696e6b2d65333366653532382d333739622d343033652d62"
    "6639372d65313539336436633864613740404040404040404040005329c02607a11d616d7170733a2f2f3132372e302e302e"
    "313a34353830372f717565756540404040404040404344404040"
)
RECORDED_FLOW = bytes.fromhex("0000002802000001005313c01b0b5201700000ffff5201700000ffff520343700000271040404040")
RECORDED_TRANSFER = bytes.fromhex(
    "0000004202000001005314c0150b52035201a0040000000143560056004040404040005373c0110da1026d31404040404040"
    "404040404040005375a00568656c6c6f"
)
RECORDED_BATCH = bytes.fromhex(
    "0000007e02000001005314c0190b52035202a004000000027080013700560056004040404040005373c0110da1026d324040"
    "40404040404040404040005375a01c005373c0110da1026d32404040404040404040404040005375a00161005375a01c0053"
    "73c0110da1026d33404040404040404040404040005375a00162"
)
RECORDED_GOODBYE = bytes.fromhex(
    "0000001302000001005316c006035203560140"  # detach of the sender; those of the $cbs links are left out
    "0000000f02000001005317c0020140"
    "0000000f02000000005318c0020140"
)


def test_a_recorded_conversation_is_understood() -> None:
    peer = Peer()
    peer.connection.receive_data(SASL_HEADER + RECORDED_SASL_INIT)
    assert peer.bodies()[-1] == SaslOutcome(0)
    opened = sdk_frame(sdk.OpenFrame("client", "127.0.0.1", 1_048_576, 65_535, None, None, None, None, None, None))
    events = peer.connection.receive_data(AMQP_HEADER + opened + RECORDED_BEGIN + RECORDED_ATTACH)
    assert isinstance(events[-1], LinkAttached)
    link = events[-1].link
    assert isinstance(link.target, Target)
    assert link.target.address == "amqps://127.0.0.1:45807/queue"
    assert (link.snd_settle_mode, link.rcv_settle_mode, link.remote.max_message_size) == (0, 1, 0)
    link.accept()
    link.set_credit_window(100)
    events = peer.connection.receive_data(RECORDED_FLOW + RECORDED_TRANSFER + RECORDED_BATCH)
    deliveries = [event.delivery for event in events if isinstance(event, DeliveryReceived)]
    assert [(delivery.id, delivery.tag) for delivery in deliveries] == [
        (1, b"\x00\x00\x00\x01"),
        (2, b"\x00\x00\x00\x02"),
    ]
    assert [delivery.message_format for delivery in deliveries] == [0, BATCH_MESSAGE_FORMAT]
    single = RawMessage.parse(deliveries[0].payload)
    assert single.decode_properties() == Properties(message_id="m1")
    assert single.body == b"\x00\x53\x75\xa0\x05hello"
    inner = [RawMessage.parse(part) for part in split_batch(deliveries[1].payload)]
    assert [item.decode_properties().message_id for item in inner] == ["m2", "m3"]
    peer.hear()
    events = peer.connection.receive_data(RECORDED_GOODBYE)
    assert [type(event) for event in events] == [LinkDetached, SessionEnded, ConnectionClosed]
    assert peer.bodies() == [Detach(0, True), End(), Close()]
    assert peer.connection.closed


def test_the_sdks_transfer_is_understood() -> None:
    message = SdkMessage(properties=SdkProperties(message_id="m1"), data=[b"hello"])
    payload = bytearray()
    encode_payload(payload, message)
    transfer = sdk.TransferFrame(
        handle=1,
        delivery_id=0,
        delivery_tag=b"\x00\x00\x00\x01",
        message_format=0,
        settled=False,
        more=False,
        rcv_settle_mode=None,
        state=None,
        resume=None,
        aborted=None,
        batchable=None,
        payload=bytes(payload),
    )
    peer = Peer()
    peer.open()
    peer.begin()
    link = peer.attach(False)
    link.accept()
    events = peer.connection.receive_data(sdk_frame(transfer))
    assert isinstance(events[0], DeliveryReceived)
    read = RawMessage.parse(events[0].delivery.payload)
    assert read.decode_properties().message_id == "m1"
    assert read.body == b"\x00\x53\x75\xa0\x05hello"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (SdkModified(delivery_failed=True, undeliverable_here=False), Modified(True, False)),
        (
            SdkRejected(
                error=AMQPError(
                    condition=b"com.microsoft:dead-letter",
                    description=None,
                    info={b"DeadLetterReason": "why", b"DeadLetterErrorDescription": None},
                )
            ),
            Rejected(
                AmqpError(
                    "com.microsoft:dead-letter", None, {"DeadLetterReason": "why", "DeadLetterErrorDescription": None}
                )
            ),
        ),
    ],
)
def test_the_sdks_outcomes_are_understood(theirs: Any, ours: Any) -> None:
    frame = sdk_frame(sdk.DispositionFrame(True, 4, 4, False, theirs, None))
    disposition, end = decode_composite(frame, 8)
    assert end == len(frame)
    assert disposition.state == ours


def test_the_sdk_reads_our_open_and_begin() -> None:
    assert judged(Open("broker", None, 65_536, 255))[:4] == [b"broker", None, 65_536, 255]
    assert judged(Begin(1, 0, 5000, 7, 1023))[:5] == [1, 0, 5000, 7, 1023]


def test_the_sdk_reads_our_attach() -> None:
    filters = {Symbol("com.microsoft:session-filter"): "s1"}
    properties = {Symbol("com.microsoft:locked-until-utc"): 638_000_000_000_000_000}
    attach = Attach("n", 0, False, 0, 1, Source("a", filter=filters), Target("b"), None, False, 0, 262_144, None, None)
    attach.properties = properties
    fields = judged(attach)
    assert len(fields) == 14
    assert fields[0] == b"n"
    assert fields[5][0] == b"a"
    assert fields[5][7] == {b"com.microsoft:session-filter": b"s1"}
    assert fields[6][0] == b"b"
    assert fields[10] == 262_144
    assert fields[13] == {b"com.microsoft:locked-until-utc": 638_000_000_000_000_000}


def test_the_sdk_sees_null_termini_on_a_refused_link() -> None:
    fields = judged(Attach("n", 0, False))
    assert fields[5] is None
    assert fields[6] is None


def test_the_sdk_reads_our_flow_with_a_count_and_a_credit() -> None:
    assert judged(Flow(3, 5000, 4, 9, 0, 7, 100)) == [3, 5000, 4, 9, 0, 7, 100, None, False, False, None]


def test_the_sdk_reads_the_three_fields_of_our_errors() -> None:
    for fields in (judged(Detach(0, True, AmqpError("amqp:not-found"))), judged(Close(AmqpError("amqp:not-found")))):
        condition, description, info = fields[-1]
        assert condition == b"amqp:not-found"
        assert description == b""
        assert info


@pytest.mark.parametrize(
    ("state", "read"),
    [
        (Accepted(), {"accepted": []}),
        (Modified(True, False), {"modified": [True, False, None]}),
        (Rejected(), {"rejected": [None]}),
    ],
)
def test_the_sdk_reads_our_dispositions(state: Any, read: Any) -> None:
    frame = encode_disposition(0, False, 9, state)
    _, fields = decode_frame(memoryview(frame)[8:])
    assert fields == [False, 9, 9, True, read, False]


def test_the_sdk_reads_our_transfers() -> None:
    token = uuid.UUID(int=5)
    payload = (
        encode_header(Header(delivery_count=0))
        + encode_section_map(
            MESSAGE_ANNOTATIONS,
            {Symbol("x-opt-sequence-number"): 7, Symbol("x-opt-enqueued-time"): Timestamp(1_700_000_000_000)},
        )
        + encode_properties(Properties(message_id="m"))
        + encode_section_map(APPLICATION_PROPERTIES, {"n": Int(1), "s": "t", "list": Array([1, 2]), "u": token})
        + b"\x00\x53\x75"
        + encode(b"x" * 700)
    )
    head = transfer_head(b"\x43", 300, token.bytes_le, 0)
    frames = encode_transfers(0, head, payload, 512, False)
    joined = b""
    for frame, part in frames:
        kind, fields = decode_frame(memoryview(frame + part)[8:])
        assert kind == 20
        assert fields[0] == 0
        assert (fields[1], fields[2]) == (300, token.bytes_le)
        joined += bytes(fields[11])
    assert joined == payload
    message: Any = decode_payload(memoryview(joined))
    assert message.header == SdkHeader(durable=None, priority=None, ttl=None, first_acquirer=None, delivery_count=0)
    assert message.message_annotations == {
        b"x-opt-sequence-number": 7,
        b"x-opt-enqueued-time": 1_700_000_000_000,
    }
    assert message.application_properties == {b"n": 1, b"s": b"t", b"list": [1, 2], b"u": token}
    assert message.data == [b"x" * 700]
