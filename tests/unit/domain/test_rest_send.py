"""Requests of the REST API, read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.domain.message import DataBody, Message
from shared.domain.rest_send import BATCH_CONTENT_TYPE, destination_in, messages_of
from shared.errors import Rejected

BATCH = {"content-type": BATCH_CONTENT_TYPE}


def read(headers: dict[str, str], body: bytes = b"x") -> Message:
    (message,) = messages_of(headers, body, lambda: "new-id")
    return message


def read_batch(*items: Any) -> list[Message]:
    return messages_of(BATCH, json.dumps(items).encode(), lambda: "new-id")


def test_a_body_alone_is_a_message() -> None:
    message = read({}, b"\xff body")
    assert (DataBody((b"\xff body",)), "new-id", None) == (
        message.body,
        message.properties.message_id,
        message.properties.content_type,
    )
    assert {} == message.application_properties


def test_broker_properties_are_read_by_name() -> None:
    broker = {
        "MessageId": "m",
        "SessionId": "s",
        "PartitionKey": "s",
        "TimeToLive": 90.5,
        "ScheduledEnqueueTimeUtc": "Sun, 06 Nov 1994 08:49:37 GMT",
        "Label": "label",
        "CorrelationId": "c",
        "ReplyTo": "r",
        "ReplyToSessionId": "rs",
        "To": "to",
        "SequenceNumber": 12345,
        "SomethingUnknown": {"is": "ignored"},
    }
    message = read({"brokerproperties": json.dumps(broker), "content-type": "application/json; charset=utf-8"})
    properties = message.properties
    assert ("m", "s", "label", "c", "r", "rs", "to", "application/json; charset=utf-8") == (
        properties.message_id,
        properties.group_id,
        properties.subject,
        properties.correlation_id,
        properties.reply_to,
        properties.reply_to_group_id,
        properties.to,
        properties.content_type,
    )
    assert 90_500 == message.header.time_to_live_ms
    assert message.annotations == {
        "x-opt-partition-key": "s",
        "x-opt-scheduled-enqueue-time": datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC),
    }


def test_other_headers_are_user_properties_by_the_rules_of_the_api() -> None:
    message = read(
        {
            "priority": '"High"',
            "customer": "12345,ABC",
            "quoted": '"say \\"hi\\""',
            "number": "42",
            "big": "1099511627776",
            "price": "-1.5e3",
            "leading": "007",
            "flag": "true",
            "host": "h",
            "authorization": "SharedAccessSignature sr=x",
            "x-functions-key": "k",
            "x-forwarded-for": "1.2.3.4",
            "user-agent": "curl",
            "traceparent": "00-1-2-3",
        }
    )
    assert message.application_properties == {
        "priority": "High",
        "customer": "12345,ABC",
        "quoted": 'say "hi"',
        "number": 42,
        "big": 2**40,
        "price": -1500.0,
        "leading": "007",
        "flag": True,
    }


def test_a_batch_holds_messages_with_properties_of_their_own() -> None:
    first, second = read_batch(
        {"Body": "one", "BrokerProperties": {"Label": "M1"}, "UserProperties": {"Priority": "Low", "n": 1}},
        {"Body": "żółć", "BrokerProperties": None},
    )
    assert (DataBody((b"one",)), "M1", {"Priority": "Low", "n": 1}) == (
        first.body,
        first.properties.subject,
        first.application_properties,
    )
    assert DataBody(("żółć".encode(),)) == second.body


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        ({"brokerproperties": "{"}, "BrokerProperties is not JSON"),
        ({"brokerproperties": "[]"}, "not a JSON object"),
        ({"brokerproperties": '{"Label": "ż"}'}, "not ASCII"),
        ({"brokerproperties": '{"MessageId": 5}'}, "MessageId is text; this one is a number"),
        ({"brokerproperties": '{"SessionId": true}'}, "SessionId is text; this one is true or false"),
        ({"brokerproperties": '{"Label": ["a"]}'}, "Label is text; this one is a list"),
        ({"brokerproperties": '{"TimeToLive": "90"}'}, "TimeToLive is a number of seconds"),
        ({"brokerproperties": '{"TimeToLive": -1}'}, "above 0"),
        ({"brokerproperties": '{"TimeToLive": NaN}'}, "above 0"),
        ({"brokerproperties": '{"ScheduledEnqueueTimeUtc": "tomorrow"}'}, "a time as in Sun, 06 Nov"),
        ({"brokerproperties": '{"SessionId": "a", "PartitionKey": "b"}'}, "both set and differ"),
        ({"brokerproperties": f'{{"SessionId": "{"x" * 129}"}}'}, "129 characters"),
        ({"brokerproperties": '{"MessageId": ""}'}, "MessageId is empty"),
        ({"name": "Zażółć"}, "The header name is not ASCII"),
        ({"number": "1" * 30}, "more than 64 bits"),
        ({"large": "x" * 40_000}, "at most 32768"),
        ({f"h{number}": "x" * 30_000 for number in range(3)}, "at most 65536"),
    ],
)
def test_bad_headers_are_refused_with_the_thing_to_change(headers: dict[str, str], complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        read(headers)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{", "The batch is not JSON"),
        (b"{}", "A batch is a JSON array"),
        (b"[]", "at least one message"),
        (b'[{"Body": "a"}, 5]', r"Message 1 of the batch .*: it is not a JSON object"),
        (b'[{"Body": "a"}, {"Body": 5}]', "Message 1 .* Body is missing or is not text"),
        (b'[{"Body": "a"}, {}]', "Message 1 .* Body is missing"),
        (b'[{"Body": "a", "Bodies": "b"}]', "Message 0 .* a member Bodies"),
        (b'[{"Body": "a", "BrokerProperties": 1}]', "Message 0 .* BrokerProperties is not a JSON object"),
        (b'[{"Body": "a", "BrokerProperties": {"MessageId": 1}}]', "Message 0 .* MessageId is text"),
        (b'[{"Body": "a", "UserProperties": []}, 1]', "Message 1 .*: it is not a JSON object"),
        (b'[{"Body": "a", "UserProperties": {"a": {}}}]', "Message 0 .* property a is neither"),
        (b'[{"Body": "a", "UserProperties": {"x-ms-path": "b"}}]', "Message 0 .* belongs to the pair"),
        (b'[{"Body": "\\ud800"}]', "Message 0 .* surrogate"),
        (b'[{"Body": "a", "BrokerProperties": {"SessionId": "\\ud800"}}]', "Message 0 .* SessionId .* surrogate"),
        (b'[{"Body": "a", "UserProperties": {"a": "\\udfff"}}]', "Message 0 .* property a .* surrogate"),
        (b'[{"Body": "a", "UserProperties": {"\\udfff": 1}}]', "Message 0 .* name .* surrogate"),
        (b"[" * 200_000, "The batch is not JSON"),
    ],
)
def test_a_batch_with_one_bad_item_names_it(body: bytes, complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        messages_of(BATCH, body, lambda: "new-id")


@pytest.mark.parametrize(("path", "expected"), [("orders/messages", "orders"), ("a/b/Messages", "a/b")])
def test_the_entity_is_what_comes_before_messages(path: str, expected: str) -> None:
    assert expected == destination_in(path)


@pytest.mark.parametrize(
    "path", ["", "messages", "/messages", "orders", "orders/messages/head", "orders/", "orders//messages"]
)
def test_other_operations_are_refused_by_name(path: str) -> None:
    with pytest.raises(Rejected, match="entity path"):
        destination_in(path)
