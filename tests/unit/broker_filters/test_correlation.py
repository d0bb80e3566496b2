"""A correlation filter chooses messages whose named properties are all equal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from local.broker.amqp.types import Int, Timestamp
from local.broker.descriptions import CorrelationFilter
from local.broker.errors import FilterError
from local.broker.filters import compile_filter


class Message:
    def __init__(self, user: Mapping[str, object] | None = None, **system: object) -> None:
        self._user = {name.lower(): value for name, value in (user or {}).items()}
        self._system = system

    def system(self, name: str) -> object | None:
        return self._system.get(name)

    def user(self, name: str) -> object | None:
        return self._user.get(name.lower())

    def has_user(self, name: str) -> bool:
        return name.lower() in self._user


def test_every_system_property_must_be_equal() -> None:
    wanted = CorrelationFilter(
        correlation_id="c",
        message_id="m",
        to="t",
        reply_to="r",
        label="l",
        session_id="s",
        reply_to_session_id="rs",
        content_type="ct",
    )
    fields = {
        "correlationid": "c",
        "messageid": "m",
        "to": "t",
        "replyto": "r",
        "label": "l",
        "sessionid": "s",
        "replytosessionid": "rs",
        "contenttype": "ct",
    }
    matches = compile_filter(wanted)
    assert matches(Message(None, **fields)) is True
    for name in fields:
        assert matches(Message(None, **{**fields, name: "other"})) is False
        assert matches(Message(None, **{**fields, name: None})) is False


def test_text_is_compared_with_regard_to_case_and_names_without() -> None:
    matches = compile_filter(CorrelationFilter(properties=(("Color", "Red"),)))
    assert matches(Message({"COLOR": "Red"})) is True
    assert matches(Message({"color": "red"})) is False


@pytest.mark.parametrize(
    ("wanted", "value", "is_match"),
    [
        (2, Int(2), True),
        (2, 2.0, True),
        (2, "2", False),
        (True, True, True),
        (True, 1, False),
        (datetime(2023, 11, 14, 22, 13, 20), Timestamp(1_700_000_000_000), True),  # noqa: DTZ001 - no zone is UTC
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), Timestamp(1_700_000_000_001), False),
        (None, None, True),
        (None, 1, False),
        (1, None, False),
    ],
)
def test_user_properties_are_compared_by_value_and_kind(wanted: object, value: object, is_match: bool) -> None:
    assert compile_filter(CorrelationFilter(properties=(("p", wanted),)))(Message({"p": value})) is is_match


def test_a_missing_property_never_matches() -> None:
    assert compile_filter(CorrelationFilter(properties=(("p", None),)))(Message()) is False
    assert compile_filter(CorrelationFilter(label="x", properties=(("p", 1),)))(Message(label="x")) is False


def test_an_empty_filter_is_refused() -> None:
    with pytest.raises(FilterError):
        compile_filter(CorrelationFilter())
