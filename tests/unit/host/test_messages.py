import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from local.host.converters import converter_for
from local.host.messages import (
    BodyNotText,
    TriggerMessage,
    body_datum,
    json_value,
    many_body,
    many_metadata,
    single_metadata,
)

CONVERTER = converter_for("serviceBusTrigger")
MESSAGE = TriggerMessage(
    body=b"text", message_id="id", lock_token="token", sequence_number=7, delivery_count=1,
    enqueued=datetime(2026, 11, 18, 7, 0, 0, 120_000, tzinfo=UTC), properties={"a": 1},
)  # fmt: skip
SENT_ALWAYS = {
    "DeliveryCount", "LockToken", "ExpiresAtUtc", "ExpiresAt", "EnqueuedTimeUtc", "EnqueuedTime", "MessageId",
    "SequenceNumber", "ApplicationProperties", "UserProperties", "MessageReceiver", "MessageActions", "ReceiveActions",
    "Client",
}  # fmt: skip


def decode(message: TriggerMessage, *, binary: bool = False) -> Any:
    """Through the library's own converter, as a function sees it."""
    return CONVERTER.decode(
        body_datum(message, binary=binary), trigger_metadata=single_metadata(message, binary=binary)
    )


def test_null_values_are_not_sent_and_neither_is_what_the_extension_never_sends() -> None:
    assert SENT_ALWAYS == set(single_metadata(MESSAGE, binary=True))


def test_times_arrive_naive_and_trimmed() -> None:
    seen = decode(MESSAGE)
    assert datetime(2026, 11, 18, 7, 0, 0, 120_000) == seen.enqueued_time_utc  # noqa: DTZ001  # as in Azure
    assert 9999 == seen.expires_at_utc.year


def test_an_expiry_is_sent_when_there_is_one() -> None:
    seen = decode(replace(MESSAGE, expires=datetime(2026, 11, 18, 8, tzinfo=UTC)))
    assert datetime(2026, 11, 18, 8) == seen.expires_at_utc  # noqa: DTZ001  # as in Azure


def test_an_empty_body_is_empty_bytes() -> None:
    for binary in (True, False):
        assert b"" == decode(replace(MESSAGE, body=b""), binary=binary).get_body()


def test_a_body_that_is_no_text_needs_a_binary_trigger() -> None:
    message = replace(MESSAGE, body=b"\xff\xfe")
    assert b"\xff\xfe" == decode(message, binary=True).get_body()
    with pytest.raises(BodyNotText, match="BINARY"):
        decode(message)


@pytest.mark.parametrize(
    ("body", "attribute", "expected"),
    [
        ({"to": "x"}, "to", "x"),
        ({"MESSAGEID": "x"}, "message_id", "x"),
        ({"deliveryCount": 9}, "delivery_count", 9),
        ({"userProperties": {"b": 2}}, "user_properties", {"b": 2}),
        ({"messageId": None}, "message_id", "id"),
        ({"messageId": ["x"]}, "message_id", "id"),
        (["messageId"], "message_id", "id"),
    ],
)
def test_a_json_text_body_writes_over_metadata(body: Any, attribute: str, expected: Any) -> None:
    message = replace(MESSAGE, body=json.dumps(body).encode())
    assert expected == getattr(decode(message), attribute)
    assert getattr(decode(MESSAGE), attribute) == getattr(decode(message, binary=True), attribute)


@pytest.mark.parametrize("body", [{"deliveryCount": "abc"}, {"userProperties": "x"}])
def test_some_bodies_make_the_library_raise_before_any_code_runs(body: Any) -> None:
    with pytest.raises(ValueError, match="metadata"):
        decode(replace(MESSAGE, body=json.dumps(body).encode()))


def test_unfinished_json_changes_nothing() -> None:
    assert "id" == decode(replace(MESSAGE, body=b'{"messageId": ')).message_id


def test_a_batch_shifts_what_follows_an_empty_text_but_not_ids_numbers_and_properties() -> None:
    batch = [
        replace(MESSAGE, body=b"a", message_id="1", sequence_number=1, properties={"n": 1}),
        replace(MESSAGE, body=b"b", message_id="2", sequence_number=2, properties={"n": 2}, correlation_id="of b"),
    ]
    seen = CONVERTER.decode(many_body(batch, binary=False), trigger_metadata=many_metadata(batch))
    assert [b"a", b"b"] == [message.get_body() for message in seen]
    assert [("1", 1, {"n": 1}), ("2", 2, {"n": 2})] == [
        (message.message_id, message.sequence_number, message.user_properties) for message in seen
    ]
    assert ["of b", None] == [message.correlation_id for message in seen]


def test_the_transaction_partition_keys_of_a_batch_are_its_partition_keys() -> None:
    batch = [replace(MESSAGE, partition_key="p", transaction_partition_key="t")]
    (seen,) = CONVERTER.decode(many_body(batch, binary=True), trigger_metadata=many_metadata(batch))
    assert "p" == seen.transaction_partition_key


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"symbol", "symbol"),
        (b"\xff\x00", "/wA="),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (1.5, 1.5),
        (None, None),
    ],
)
def test_properties_of_every_type_become_json(value: Any, expected: Any) -> None:
    assert expected == json_value(value)
