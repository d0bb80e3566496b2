"""Values of message properties and how operators treat them. None is "unknown" and spreads through every operator.

Operators follow C#'s promotions: whole numbers are 64-bit and overflow is an error, whole and real give real, `+` with
a string on either side joins text, dates and durations add and subtract.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from local.broker.amqp.types import Decimal128, Described, Timestamp

from .views import FilterEvaluationError

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_ONE_TICKS = 621_355_968_000_000_000
_TICKS_PER_MICROSECOND = 10

#: Classes that need no conversion; tested by identity because that is most values, most of the time.
_PLAIN = (str, int, float, bool, type(None), UUID, timedelta)


def plain(value: object) -> object:
    """The value as operators understand it: AMQP's own types become Python's, dates are in UTC."""
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, Timestamp):
        return _date(lambda: _EPOCH + timedelta(milliseconds=value))
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal):
        # A decimal that is not a number cannot even be compared; a double can, and is then equal to nothing.
        return math.nan if value.is_nan() else value
    if isinstance(value, Decimal128):
        return _decimal(value)
    if isinstance(value, Described):
        return _described(value)
    return value


def _described(value: Described) -> object:
    """The .NET client's own types: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide"""
    ticks = value.value
    match str(value.descriptor):
        case "com.microsoft:timespan" if isinstance(ticks, int):
            return timedelta(microseconds=ticks // _TICKS_PER_MICROSECOND)
        case "com.microsoft:datetime-offset" if isinstance(ticks, int):
            microseconds = (ticks - _YEAR_ONE_TICKS) // _TICKS_PER_MICROSECOND
            return _date(lambda: _EPOCH + timedelta(microseconds=microseconds))
        case "com.microsoft:uri" if isinstance(ticks, str):
            return str(ticks)
        case _:
            return value


def _decimal(value: Decimal128) -> object:
    """IEEE 754 decimal128 in its binary-integer form, which is what .NET writes."""
    bits = int.from_bytes(value, "big")
    if (bits >> 125) & 0b11 == 0b11:
        return value
    exponent = ((bits >> 113) & 0x3FFF) - 6176
    magnitude = Decimal(bits & ((1 << 113) - 1)).scaleb(exponent)
    return -magnitude if bits >> 127 else magnitude


def instant(seconds: float) -> datetime:
    return _date(lambda: _EPOCH + timedelta(seconds=seconds))


def _date(make: Callable[[], datetime]) -> datetime:
    try:
        return make()
    except OverflowError as error:
        raise FilterEvaluationError("A date is beyond the year 9999.") from error


def type_name(value: object) -> str:
    names = {bool: "boolean", int: "integer", float: "double", str: "string", UUID: "guid", Decimal: "decimal"}
    return names.get(value.__class__, value.__class__.__name__)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def are_equal(left: object, right: object) -> bool:
    """Equality of two known values. Values of unlike types are different, never an error."""
    if _is_number(left) and _is_number(right):
        return left == right
    return left.__class__ is right.__class__ and left == right


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDERED = (str, datetime, timedelta)


def compare(symbol: str) -> Callable[[object, object], bool | None]:
    """The comparison for a symbol: true, false, or unknown when a side is unknown."""
    if symbol in ("=", "<>"):
        wanted = symbol == "="

        def equality(left: object, right: object) -> bool | None:
            if left is None or right is None:
                return None
            return are_equal(left, right) is wanted

        return equality
    order = _ORDERS[symbol]

    def ordering(left: object, right: object) -> bool | None:
        if left is None or right is None:
            return None
        if (_is_number(left) and _is_number(right)) or (
            left.__class__ is right.__class__ and isinstance(left, _ORDERED)
        ):
            return order(left, right)
        raise FilterEvaluationError(f"'{symbol}' cannot compare {type_name(left)} with {type_name(right)}.")

    return ordering


def calculate(symbol: str, left: object, right: object) -> object:
    if left is None or right is None:
        return None
    if symbol == "+" and (isinstance(left, str) or isinstance(right, str)):
        return as_text(left) + as_text(right)
    if _is_number(left) and _is_number(right):
        return _calculate_numbers(symbol, left, right)
    try:
        return _calculate_times(symbol, left, right)
    except OverflowError as error:
        raise FilterEvaluationError(f"The result of '{symbol}' is out of range.") from error


def _calculate_times(symbol: str, left: object, right: object) -> object:
    if symbol == "+":
        if isinstance(left, datetime | timedelta) and isinstance(right, timedelta):
            return left + right
        if isinstance(left, timedelta) and isinstance(right, datetime):
            return left + right
    if symbol == "-":
        if isinstance(left, datetime) and isinstance(right, datetime | timedelta):
            return left - right
        if isinstance(left, timedelta) and isinstance(right, timedelta):
            return left - right
    raise FilterEvaluationError(f"'{symbol}' cannot be applied to {type_name(left)} and {type_name(right)}.")


def _calculate_numbers(symbol: str, left: object, right: object) -> object:
    if isinstance(left, int) and isinstance(right, int):
        return _within_int64(_whole(symbol, left, right), symbol)
    if isinstance(left, float) or isinstance(right, float):
        return _real(symbol, float(str(left)), float(str(right)))
    return _exact(symbol, Decimal(str(left)), Decimal(str(right)))


def _whole(symbol: str, left: int, right: int) -> int:
    match symbol:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise FilterEvaluationError(f"'{symbol}' by zero.")
    # Like C#, and unlike Python, the quotient is cut towards zero and the remainder has the sign of the left side.
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if symbol == "/" else left - quotient * right


def _within_int64(value: int, symbol: str) -> int:
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise FilterEvaluationError(f"The result of '{symbol}' does not fit a 64-bit integer.")


def _real(symbol: str, left: float, right: float) -> float:
    match symbol:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right != 0.0:
            return left / right
        case "/" if left == 0.0 or math.isnan(left):
            return math.nan
        case "/":
            return math.copysign(math.inf, left) * math.copysign(1.0, right)
        case _ if right == 0.0 or math.isinf(left):
            return math.nan
        case _:
            return math.fmod(left, right)


def _exact(symbol: str, left: Decimal, right: Decimal) -> Decimal:
    if symbol in "/%" and not right:
        raise FilterEvaluationError(f"'{symbol}' by zero.")
    try:
        match symbol:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case _:
                return left % right
    except ArithmeticError as error:
        raise FilterEvaluationError(f"The result of '{symbol}' is out of range.") from error


def negate(sign: str, value: object) -> object:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | timedelta):
        raise FilterEvaluationError(f"The sign '{sign}' cannot be applied to {type_name(value)}.")
    if sign == "+":
        return value
    if isinstance(value, int):
        return _within_int64(-value, sign)
    return -value


def as_text(value: object) -> str:
    """Text of a value as C# would join it to a string."""
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(value)
