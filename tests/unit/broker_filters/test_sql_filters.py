"""The SQL filter language as Microsoft's reference page describes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from local.broker.amqp.types import Decimal128, Described, Float32, Int, Symbol, Timestamp
from local.broker.descriptions import FalseFilter, SqlFilter, TrueFilter
from local.broker.errors import FilterError
from local.broker.filters import FilterEvaluationError, compile_filter


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


def chosen(expression: str, message: Message | None = None, **parameters: object) -> bool:
    rule_filter = SqlFilter(expression=expression, parameters=tuple(parameters.items()))
    return compile_filter(rule_filter)(message or Message())


ORDER = Message(
    {
        "color": "Red",
        "Quantity": 10,
        "price": 2.5,
        "urgent": True,
        "nothing": None,
        "with space": "x",
        "a]b": 1,
        'q"q': 2,
        "small": Int(7),
        "ratio": Float32(0.5),
        "p": "plain",
    },
    messageid="m-1",
    label="orders",
    sequencenumber=7,
    enqueuedtimeutc=1_700_000_000.0,
    timetolive=60.0,
)


@pytest.mark.parametrize(
    "expression",
    [
        "color = 'Red'",
        "COLOR='Red'",
        "user.color = 'Red'",
        "USER.Color = 'Red'",
        "[color] = 'Red'",
        "\"color\" = 'Red'",
        "[with space] = 'x'",
        "[a]]b] = 1",
        '"q""q" = 2',
        "user.[with space] = 'x'",
        "Quantity = 10",
        "Quantity = 10.0",
        "Quantity <> 11",
        "Quantity != 11",
        "Quantity > 9 AND Quantity >= 10 AND Quantity < 11 AND Quantity <= 10",
        "9 < Quantity",
        "price = 2.5",
        "price = 25E-1",
        "price = 0.25e1",
        "small = 7",
        "ratio = 0.5",
        "urgent = TRUE",
        "urgent",
        "NOT urgent = FALSE",
        "TRUE",
        "1=1",
        "NOT 1=2",
        "NOT NOT urgent",
        "color = 'Blue' OR Quantity = 10",
        "color = 'Blue' AND Quantity = 11 OR urgent",
        "urgent OR color = 'Blue' AND Quantity = 11",
        "(urgent OR color = 'Blue') AND Quantity = 10",
        "NOT color = 'Blue' AND urgent",
        "color IN ('Blue', 'Red')",
        "color NOT IN ('Blue', 'Green')",
        "Quantity IN (1, 5 + 5, 'x')",
        "Quantity + 1 NOT IN (1, 2.0)",
        "color LIKE 'R%'",
        "color LIKE '%e%'",
        "color LIKE '_e_'",
        "color LIKE 'Red'",
        "color NOT LIKE 'r%'",
        "color + '%' LIKE 'Red!%' ESCAPE '!'",
        "color LIKE color",
        "missing IS NULL",
        "nothing IS NULL",
        "color IS NOT NULL",
        "sys.CorrelationId IS NULL",
        "EXISTS(color)",
        "exists ( nothing )",
        "NOT EXISTS(missing)",
        "EXISTS(sys.Label)",
        "EXISTS([with space])",
        "sys.MessageId = 'm-1'",
        "SYS.label LIKE 'ord%'",
        "sys.Subject = 'orders'",
        "sys.SequenceNumber % 4 = 3",
        "Quantity + 2 * 3 = 16",
        "(Quantity + 2) * 3 = 36",
        "Quantity - 3 - 2 = 5",
        "100 / Quantity / 2 = 5",
        "7 / 2 = 3",
        "-7 / 2 = -3",
        "-7 % 2 = -1",
        "7.0 / 2 = 3.5",
        "- - Quantity = +10",
        "-Quantity = 0 - 10",
        "color + 1 = 'Red1'",
        "'is ' + urgent = 'is True'",
        "'it''s' = 'it''s'",
        "'' = ''",
        "property('color') = 'Red'",
        "p('qua' + 'ntity') = 10",
        "p = 'plain'",
        "newid() <> newid()",
        "sys.TimeToLive = sys.TimeToLive",
        "(color = 'Red') = TRUE",
    ],
)
def test_a_true_condition_chooses_the_message(expression: str) -> None:
    assert chosen(expression, ORDER) is True


@pytest.mark.parametrize(
    "expression",
    [
        "color = 'red'",
        "color = 10",
        "Quantity = '10'",
        "urgent = 1",
        "color NOT IN ('Red')",
        "color LIKE 'R'",
        "color LIKE '_R%'",
        "color LIKE '%d_'",
        "FALSE",
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "missing = missing",
        "nothing = NULL",
        "missing + 1 = 1",
        "-missing = 1",
        "missing LIKE '%'",
        "missing NOT LIKE '%'",
        "color LIKE missing",
        "color LIKE '%' ESCAPE missing",
        "missing IN (1)",
        "missing NOT IN (1)",
        "Quantity NOT IN (1, missing)",
        "missing > 1 OR missing <= 1",
        "NOT (missing = 1 AND urgent)",
        "missing",
        "p(missing) = 1",
        "NULL",
    ],
)
def test_false_and_unknown_leave_the_message_out(expression: str) -> None:
    assert chosen(expression, ORDER) is False


@pytest.mark.parametrize(
    ("expression", "truth"),
    [
        (f"{a} {operator} {b}", table[(a, b)])
        for operator, table in {
            "AND": {
                ("T", "T"): "T",
                ("T", "F"): "F",
                ("T", "U"): "U",
                ("F", "U"): "F",
                ("U", "U"): "U",
                ("F", "F"): "F",
            },
            "OR": {
                ("T", "T"): "T",
                ("T", "F"): "T",
                ("T", "U"): "T",
                ("F", "U"): "U",
                ("U", "U"): "U",
                ("F", "F"): "F",
            },
        }.items()
        for a, b in [pair for one in table for pair in (one, one[::-1])]
        if (a, b) in table
    ],
)
def test_three_valued_logic_follows_the_published_tables(expression: str, truth: str) -> None:
    spelled = expression
    for letter, condition in (("T ", "1=1 "), ("F ", "1=2 "), ("U ", "missing=1 ")):
        spelled = (spelled + " ").replace(letter, condition).strip()
    is_true, is_false = chosen(spelled), chosen(f"NOT ({spelled})")
    assert {(True, False): "T", (False, True): "F", (False, False): "U"}[(is_true, is_false)] == truth


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "At position 1: expected a value, found the end of the text."),
        ("color =", "At position 8: expected a value, found the end of the text."),
        ("color = 'Red", "At position 9: expected a closing '."),
        ("[color = 1", "At position 1: expected a name and a closing ]."),
        ('"" = 1', 'At position 1: expected a name and a closing ".'),
        ("color = = 1", "At position 9: expected a value, found '='."),
        ("color = 1 extra", "At position 11: expected AND, OR or the end of the text, found 'extra'."),
        ("(color = 1", "At position 11: expected a closing ), found the end of the text."),
        ("color = 1)", "At position 10: expected AND, OR or the end of the text, found ')'."),
        ("color IS 1", "At position 10: expected NULL, found '1'."),
        ("color NOT 1", "At position 11: expected IN or LIKE, found '1'."),
        ("color IN 1", "At position 10: expected (, found '1'."),
        ("color IN (1", "At position 12: expected a comma or a closing ), found the end of the text."),
        ("color IN ()", "At position 11: expected a value, found ')'."),
        ("a = b = c", "At position 7: expected AND, OR or the end of the condition, found '='."),
        ("a = NOT b", "At position 5: expected a value, found 'NOT'."),
        ("1", "At position 1: expected a condition, found a value."),
        ("'text'", "At position 1: expected a condition, found a value."),
        ("a + b", "At position 1: expected a condition, found a value."),
        ("a AND 1", "At position 7: expected a condition, found a value."),
        ("(a = b) + 1 = 2", "At position 4: expected a value, found a condition."),
        ("-(a = b) = 2", "At position 5: expected a value, found a condition."),
        ("foo.bar = 1", "At position 1: the scope must be sys or user, not 'foo'."),
        ("sys.Nope = 1", "At position 5: there is no system property 'Nope'."),
        ("sys. = 1", "At position 6: expected the name of a property, found '='."),
        ("EXISTS(1)", "At position 8: expected the name of a property, found '1'."),
        ("EXISTS color", "At position 8: expected (, found 'color'."),
        ("upper(color) = 'RED'", "At position 1: there is no function 'upper'."),
        ("newid(1) = 1", "At position 7: expected a closing ), found '1'."),
        ("color = @p", "At position 9: no value was given for the parameter '@p'."),
        ("color = @", "At position 9: expected a parameter name."),
        ("color = 1 # 2", "At position 11: the character '#' has no meaning here."),
        ("_color = 1", "At position 1: the character '_' has no meaning here."),
        ("color = 9223372036854775808", "At position 9: 9223372036854775808 does not fit a 64-bit integer."),
        ("color = 1E999", "At position 9: 1E999 does not fit a double."),
        ("color LIKE 'a' ESCAPE 'ab'", "At position 7: The ESCAPE of LIKE must be one character."),
        ("color LIKE 'a!' ESCAPE '!'", "At position 7: The pattern of LIKE ends with its escape character."),
        ("color LIKE 1", "At position 7: The pattern and the ESCAPE of LIKE must be strings."),
        ("SET a = 1", "At position 1: expected a value, found 'SET'."),
        ("(" * 70 + "a", "At position 65: nested deeper than 64 levels."),
        ("a" * 1025, "The filter is 1025 characters long; the limit is 1024."),
    ],
)
def test_an_unreadable_filter_is_refused_with_place_and_expectation(expression: str, complaint: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(SqlFilter(expression=expression))
    assert caught.value.description == complaint
    assert caught.value.condition == "com.microsoft:argument-error"


@pytest.mark.parametrize(
    "expression",
    [
        "color > 1",
        "urgent > FALSE",
        "color - 1 = 0",
        "-color = 1",
        "urgent + 1 = 2",
        "Quantity / 0 = 1",
        "Quantity % 0 = 1",
        "Quantity * 9223372036854775807 = 1",
        "Quantity LIKE '1%'",
        "color LIKE Quantity",
        "color LIKE 'a' ESCAPE color",
        "Quantity AND urgent",
        "p(Quantity) = 1",
        "sys.EnqueuedTimeUtc > '2020-01-01'",
    ],
)
def test_values_that_do_not_fit_are_an_evaluation_error(expression: str) -> None:
    matches = compile_filter(SqlFilter(expression=expression))
    with pytest.raises(FilterEvaluationError):
        matches(ORDER)


def test_what_decides_is_not_spoiled_by_what_comes_after() -> None:
    assert chosen("urgent OR color > 1", ORDER) is True
    assert chosen("color = 'Blue' AND color > 1", ORDER) is False


def test_real_numbers_divide_by_zero_as_doubles_do() -> None:
    assert chosen("1.0 / 0 > 9E99") is True
    assert chosen("-1.0 / 0 < -9E99") is True
    assert chosen("0.0 / 0 = 0.0 / 0") is False


@pytest.mark.parametrize("given", ["@limit", "limit", "@LIMIT"])
def test_parameters_are_named_with_or_without_their_sign(given: str) -> None:
    matches = compile_filter(SqlFilter(expression="Quantity > @limit", parameters=((given, 9),)))
    assert matches(ORDER) is True


def test_dates_and_durations_compare_add_and_subtract() -> None:
    sent = datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001 - parameters without a zone are UTC
    message = Message({"due": Timestamp(1_700_000_060_000)}, enqueuedtimeutc=1_700_000_000.0, timetolive=60.0)
    assert chosen("sys.EnqueuedTimeUtc = @sent", message, sent=sent) is True
    assert chosen("due - sys.EnqueuedTimeUtc = sys.TimeToLive", message) is True
    assert chosen("due > @sent AND due < @sent + @hour", message, sent=sent, hour=timedelta(hours=1)) is True
    assert chosen("due = @due", message, due=datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC)) is True


def test_types_of_the_dotnet_client_are_understood() -> None:
    ticks_of_2024 = 638_396_640_000_000_000
    message = Message(
        {
            "span": Described(Symbol("com.microsoft:timespan"), 600_000_000),
            "offset": Described(Symbol("com.microsoft:datetime-offset"), ticks_of_2024),
            "uri": Described(Symbol("com.microsoft:uri"), "http://x"),
            "other": Described(Symbol("x:other"), 1),
            # 12.5 = 125 x 10^-1
            "money": Decimal128(((6175 << 113) | 125).to_bytes(16, "big")),
            "debt": Decimal128(((1 << 127) | (6176 << 113) | 3).to_bytes(16, "big")),
            "id": UUID(int=5),
            "raw": b"\x01",
        }
    )
    assert chosen("span = @span", message, span=timedelta(minutes=1)) is True
    assert chosen("offset = @day", message, day=datetime(2024, 1, 1, tzinfo=UTC)) is True
    assert chosen("uri = 'http://x'", message) is True
    assert chosen("money = 12.5 AND money + 1 = 13.5 AND money * @two = 25", message, two=Decimal(2)) is True
    assert chosen("debt < 0 AND debt / 2 = -1.5", message) is True
    assert chosen("id = @id", message, id=UUID(int=5)) is True
    assert chosen("other = 1 OR raw = 'x' OR id = '00000000-0000-0000-0000-000000000005'", message) is False


def test_a_date_beyond_the_calendar_is_an_evaluation_error() -> None:
    matches = compile_filter(SqlFilter(expression="due IS NULL"))
    with pytest.raises(FilterEvaluationError):
        matches(Message({"due": Timestamp(2**62)}))


def test_true_and_false_filters_do_not_look() -> None:
    assert compile_filter(TrueFilter())(Message()) is True
    assert compile_filter(FalseFilter())(Message()) is False


def test_a_filter_at_the_length_limit_is_taken() -> None:
    text = "a = 1" + " OR a = 1" * 113
    assert len(text) <= 1024
    assert chosen(text, Message({"a": 1})) is True
    assert chosen("a" + "+1" * 500 + " = 501", Message({"a": 1})) is True


@pytest.mark.parametrize("text", ["NaN", "sNaN"])
def test_a_decimal_that_is_no_number_equals_and_precedes_nothing(text: str) -> None:
    message = Message({"a": Decimal(text)})
    assert chosen("a = 1 OR a < 1 OR a > 1 OR a = a OR a IN (1)", message) is False
    assert chosen("a <> 1", message) is True
