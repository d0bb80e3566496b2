"""No text and no message makes the filter language do anything but answer or refuse properly."""

from __future__ import annotations

import fnmatch
import re
from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from local.broker.amqp.types import Described, Float32, Int, Symbol, Timestamp, ULong
from local.broker.descriptions import CorrelationFilter, SqlFilter, SqlRuleAction
from local.broker.errors import FilterError
from local.broker.filters import FilterEvaluationError, compile_action, compile_filter
from local.broker.filters.likes import like

WORDS = """
    a b sys. user. sys.Label sys.TimeToLive sys.EnqueuedTimeUtc [x y] "q" 'text' '' 'a%_'
    1 0 2.5 1E3 9223372036854775807 TRUE FALSE NULL AND OR NOT IN LIKE ESCAPE IS EXISTS
    ( ) , ; = <> != < <= > >= + - * / % . @p @q newid() p( property( SET REMOVE
"""
words = st.sampled_from(WORDS.split())
soup = st.lists(st.one_of(words, st.text(max_size=3)), max_size=30).map(" ".join)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.floats(),
    st.floats(width=32).map(Float32),
    st.text(max_size=12),
    st.binary(max_size=8),
    st.uuids(),
    st.datetimes(),
    st.timedeltas(),
    st.decimals(),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: Described(Symbol("com.microsoft:timespan"), n)),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: Described(Symbol("com.microsoft:datetime-offset"), n)),
    st.lists(st.integers(), max_size=2),
)


class Message:
    def __init__(self, user: dict[str, object], system: object, instant: float) -> None:
        self._user, self._system, self._instant = user, system, instant

    def system(self, name: str) -> object | None:
        timed = name in ("enqueuedtimeutc", "scheduledenqueuetimeutc", "timetolive")
        return self._instant if timed else self._system

    def user(self, name: str) -> object | None:
        return self._user.get(name.lower())

    def has_user(self, name: str) -> bool:
        return name.lower() in self._user


messages = st.builds(
    Message,
    st.dictionaries(st.sampled_from(["a", "b", "x y", "q"]), values, max_size=4),
    st.one_of(st.none(), st.text(max_size=5)),
    st.floats(0, 1e18),
)


@given(text=soup, message=messages, parameter=values)
@example(text="a = 'x' AND NOT b LIKE '%'", message=Message({"a": "x", "b": 1}, None, 0.0), parameter=None)
def test_any_filter_text_is_compiled_or_refused_and_then_answers_or_refuses(
    text: str, message: Message, parameter: object
) -> None:
    try:
        matches = compile_filter(SqlFilter(expression=text, parameters=(("@p", parameter), ("q", 1))))
        answer = matches(message)
    except (FilterError, FilterEvaluationError):
        return
    assert answer is True or answer is False


@given(text=soup, message=messages, parameter=values)
def test_any_action_text_is_compiled_or_refused_and_then_changes_or_refuses(
    text: str, message: Message, parameter: object
) -> None:
    try:
        made = compile_action(SqlRuleAction(expression=f"SET a = {text}", parameters=(("@p", parameter),)))(message)
    except (FilterError, FilterEvaluationError):
        return
    lowered = [name.lower() for name in made.set_user] + [name.lower() for name in made.removed_user]
    assert len(lowered) == len(set(lowered))
    assert not any(isinstance(value, datetime | timedelta | Decimal) for value in made.set_user.values())


@given(wanted=values, message=messages)
def test_any_correlation_property_is_compared_or_refused(wanted: object, message: Message) -> None:
    try:
        matches = compile_filter(CorrelationFilter(properties=(("a", wanted),)))
        answer = matches(message)
    except FilterEvaluationError:
        return
    assert answer is True or answer is False


operands = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@given(left=st.integers(-(2**63), 2**63 - 1), right=st.integers(-(2**63), 2**63 - 1), operator=operands)
def test_whole_numbers_compare_as_they_are(left: int, right: int, operator: str) -> None:
    python = {"=": "==", "<>": "!="}.get(operator, operator)
    rule_filter = SqlFilter(expression=f"a {operator} @r", parameters=(("r", right),))
    expected = eval(f"{left} {python} {right}")
    assert compile_filter(rule_filter)(Message({"a": left}, None, 0.0)) is expected


@given(value=st.text(max_size=20), name=st.text(min_size=1, max_size=20).filter(lambda text: text.strip("]")))
def test_every_text_can_be_written_as_a_constant_and_every_name_in_brackets(value: str, name: str) -> None:
    quoted = value.replace("'", "''")
    bracketed = name.replace("]", "]]")
    matches = compile_filter(SqlFilter(expression=f"[{bracketed}] = '{quoted}'"))
    assert matches(Message({name.lower(): value}, None, 0.0)) is True


@given(pattern=st.text(alphabet="ab%_", max_size=12), text=st.text(alphabet="ab", max_size=12))
def test_like_agrees_with_an_independent_matcher(pattern: str, text: str) -> None:
    wild = pattern.replace("%", "*").replace("_", "?")
    assert like(pattern, None)(text) is (re.match(fnmatch.translate(wild), text) is not None)


def test_a_pattern_made_to_explode_is_answered_at_once() -> None:
    assert like("%a" * 500 + "b", None)("a" * 30_000) is False


@given(text=st.text(max_size=20))
def test_an_escaped_pattern_matches_exactly_its_text(text: str) -> None:
    escaped = "".join(f"!{character}" for character in text)
    assert like(escaped, "!")(text) is True
    assert like(escaped, "!")(text + "x") is False
