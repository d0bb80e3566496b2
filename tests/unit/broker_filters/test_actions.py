"""Actions set and remove properties, in order, and never touch anything else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from local.broker.amqp.types import Described, Float32, Int, Symbol, Timestamp, UByte
from local.broker.descriptions import SqlRuleAction
from local.broker.errors import FilterError
from local.broker.filters import Changes, FilterEvaluationError, compile_action


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


def changes(expression: str, message: Message | None = None, **parameters: object) -> Changes:
    action = SqlRuleAction(expression=expression, parameters=tuple(parameters.items()))
    return compile_action(action)(message or Message())


def test_set_creates_and_replaces_user_properties() -> None:
    made = changes("SET color = 'Red'; SET user.count = 1 + 2", Message({"count": 9}))
    assert made == Changes(set_user={"color": "Red", "count": 3})


def test_semicolons_between_statements_are_optional() -> None:
    expected = Changes(set_user={"a": 1, "b": 2}, removed_user=frozenset({"c"}))
    for text in ("SET a = 1 SET b = 2 REMOVE c", "SET a=1;SET b=2;REMOVE c;", "set a = 1; set b = 2 remove c;"):
        assert changes(text) == expected


def test_statements_see_what_earlier_ones_did() -> None:
    made = changes("SET a = 1; SET b = A + 1; REMOVE c; SET d = c", Message({"c": 5}))
    assert made == Changes(set_user={"a": 1, "b": 2, "d": None}, removed_user=frozenset({"c"}))


def test_the_last_word_on_a_property_wins() -> None:
    assert changes("SET a = 1; REMOVE A") == Changes(removed_user=frozenset({"A"}))
    assert changes("REMOVE a; SET A = 1") == Changes(set_user={"A": 1})


def test_system_properties_are_set_by_their_lower_case_name() -> None:
    made = changes("SET sys.Label = 'x'; SET sys.CorrelationId = sys.MessageId + '-reply'", Message(messageid="m"))
    assert made == Changes(set_system={"label": "x", "correlationid": "m-reply"})
    assert changes("SET sys.Subject = 'x'") == Changes(set_system={"label": "x"})
    assert changes("SET sys.Label = NULL") == Changes(set_system={"label": None})
    assert changes("SET sys.To = 5") == Changes(set_system={"to": "5"})


def test_time_to_live_is_given_in_seconds() -> None:
    assert changes("SET sys.TimeToLive = @t", t=timedelta(minutes=2)) == Changes(set_system={"timetolive": 120.0})
    assert changes("SET sys.TimeToLive = sys.TimeToLive + sys.TimeToLive", Message(timetolive=2.0)) == Changes(
        set_system={"timetolive": 4.0}
    )


def test_set_keeps_the_type_the_property_has_where_the_value_fits() -> None:
    made = changes(
        "SET a = a + 1; SET b = 300; SET c = 1; SET d = 0.25; SET e = 1",
        Message({"a": Int(1), "b": UByte(2), "c": 2.5, "d": Float32(1), "e": "text"}),
    )
    assert {name: (type(value), value) for name, value in made.set_user.items()} == {
        "a": (Int, 2),
        "b": (int, 300),
        "c": (float, 1.0),
        "d": (Float32, 0.25),
        "e": (int, 1),
    }


def test_values_are_handed_over_in_types_that_amqp_has() -> None:
    made = changes(
        "SET at = @at; SET span = @span; SET id = newid()",
        at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        span=timedelta(seconds=1),
    )
    assert made.set_user["at"] == Timestamp(1_700_000_000_000)
    assert type(made.set_user["at"]) is Timestamp
    assert made.set_user["span"] == Described(Symbol("com.microsoft:timespan"), 10_000_000)
    assert isinstance(made.set_user["id"], UUID)


def test_thirty_two_statements_are_taken_and_one_more_refused() -> None:
    assert len(changes(" ".join(f"SET a{i}=1" for i in range(32))).set_user) == 32
    with pytest.raises(FilterError, match="32 statements"):
        compile_action(SqlRuleAction(expression=" ".join(f"SET a{i}=1" for i in range(33))))


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "At position 1: expected SET or REMOVE, found the end of the text."),
        (";", "At position 1: expected SET or REMOVE, found ';'."),
        ("a = 1", "At position 1: expected SET or REMOVE, found 'a'."),
        ("SET a", "At position 6: expected =, found the end of the text."),
        ("SET 1 = 1", "At position 5: expected the name of a property, found '1'."),
        ("SET a = ", "At position 9: expected a value, found the end of the text."),
        ("SET a = 1,", "At position 10: expected SET or REMOVE, found ','."),
        ("SET sys.SequenceNumber = 1", "At position 9: the system property 'sequencenumber' cannot be set."),
        ("REMOVE sys.Label", "At position 12: only user properties can be removed."),
        ("REMOVE", "At position 7: expected the name of a property, found the end of the text."),
        ("SET sys.Foo = 1", "At position 9: there is no system property 'Foo'."),
        ("SET a = @x", "At position 9: no value was given for the parameter '@x'."),
    ],
)
def test_an_unreadable_action_is_refused_with_place_and_expectation(expression: str, complaint: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_action(SqlRuleAction(expression=expression))
    assert caught.value.description == complaint


@pytest.mark.parametrize(
    "expression",
    [
        "SET sys.Label = 1 = 1",
        "SET a = 1 / 0",
        "SET sys.TimeToLive = 'x'",
        "SET sys.TimeToLive = -1",
        "SET sys.To = TRUE",
    ],
)
def test_what_cannot_be_done_is_an_evaluation_error_or_refused(expression: str) -> None:
    with pytest.raises((FilterEvaluationError, FilterError)):
        changes(expression)
