"""Actions: SET and REMOVE, one after the other, each seeing what the ones before it did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from local.broker.amqp.types import Byte, Described, Float32, Int, Short, Symbol, Timestamp, UByte, UInt, ULong, UShort

from .conditions import Evaluate, Parameters, compile_value
from .syntax import SetProperty, Statement
from .values import as_text, plain, type_name
from .views import TIME_TO_LIVE, Changes, FilterEvaluationError, FilterView

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Whole numbers of AMQP by their number of values: a property keeps its type when the new value fits.
_WHOLE_RANGES: dict[type[int], tuple[int, int]] = {
    Byte: (-(2**7), 2**7 - 1),
    UByte: (0, 2**8 - 1),
    Short: (-(2**15), 2**15 - 1),
    UShort: (0, 2**16 - 1),
    Int: (-(2**31), 2**31 - 1),
    UInt: (0, 2**32 - 1),
    ULong: (0, 2**64 - 1),
}

Step = Callable[["_Draft"], None]


def compile_sql_action(statements: tuple[Statement, ...], parameters: Parameters) -> Callable[[FilterView], Changes]:
    steps = [_step(statement, parameters) for statement in statements]

    def transform(view: FilterView) -> Changes:
        draft = _Draft(view)
        for step in steps:
            step(draft)
        return draft.changes()

    return transform


def _step(statement: Statement, parameters: Parameters) -> Step:
    name = statement.property.name
    if not isinstance(statement, SetProperty):
        return lambda draft: draft.remove_user(name)
    value_of = compile_value(statement.value, parameters)
    if not statement.property.is_system:
        return _set_user(name, value_of)
    convert = _seconds if name == TIME_TO_LIVE else _system_text
    return lambda draft: draft.set_system(name, convert(name, value_of(draft)))


def _set_user(name: str, value_of: Evaluate) -> Step:
    def step(draft: _Draft) -> None:
        draft.set_user(name, _like_existing(draft.user(name), value_of(draft)))

    return step


class _Draft:
    """A message with changes laid over it."""

    def __init__(self, view: FilterView) -> None:
        self._view = view
        self._user: dict[str, tuple[str, object]] = {}
        self._removed: dict[str, str] = {}
        self._system: dict[str, object] = {}

    def system(self, name: str) -> object | None:
        return self._system[name] if name in self._system else self._view.system(name)

    def user(self, name: str) -> object | None:
        key = name.lower()
        if key in self._user:
            return self._user[key][1]
        return None if key in self._removed else self._view.user(name)

    def has_user(self, name: str) -> bool:
        key = name.lower()
        return key in self._user or (key not in self._removed and self._view.has_user(name))

    def set_user(self, name: str, value: object) -> None:
        self._user[name.lower()] = (name, value)
        self._removed.pop(name.lower(), None)

    def remove_user(self, name: str) -> None:
        self._user.pop(name.lower(), None)
        self._removed[name.lower()] = name

    def set_system(self, name: str, value: object) -> None:
        self._system[name] = value

    def changes(self) -> Changes:
        return Changes(
            set_user={name: _wire(value) for name, value in self._user.values()},
            removed_user=frozenset(self._removed.values()),
            set_system=dict(self._system),
        )


def _like_existing(existing: object, value: object) -> object:
    """SET converts to the type the property has already where C# would do so by itself."""
    kind = existing.__class__
    if isinstance(value, bool) or not isinstance(value, int):
        return Float32(value) if kind is Float32 and isinstance(value, float) else value
    if kind in _WHOLE_RANGES:
        low, high = _WHOLE_RANGES[kind]
        return kind(value) if low <= value <= high else value
    return kind(value) if kind in (float, Float32) else value


def _wire(value: object) -> object:
    """The value in a form that AMQP has a type for."""
    if isinstance(value, datetime):
        return Timestamp((value - _EPOCH) // timedelta(milliseconds=1))
    if isinstance(value, timedelta):
        return Described(Symbol("com.microsoft:timespan"), value // timedelta(microseconds=1) * 10)
    if isinstance(value, Decimal):
        return float(value)
    return value


def _system_text(name: str, value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, UUID | int | float | Decimal | datetime) and not isinstance(value, bool):
        return as_text(value)
    raise FilterEvaluationError(f"sys.{name} must be a string, not {type_name(value)}.")


def _seconds(name: str, value: object) -> object:
    seconds = plain(value)
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise FilterEvaluationError(f"sys.{name} must be a duration above zero, not {type_name(value)}.")
    return float(seconds)
