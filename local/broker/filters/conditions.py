"""Trees to closures: what is known when a rule is made is worked out then, and not again for every message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from uuid import uuid4

from local.broker.descriptions import FOREVER
from local.broker.errors import FilterError

from .likes import Matcher, like
from .syntax import (
    Arithmetic,
    Both,
    Comparison,
    Constant,
    Either,
    Exists,
    Expression,
    In,
    IsNull,
    Like,
    Negation,
    NewId,
    Not,
    Parameter,
    Property,
    PropertyByName,
)
from .values import are_equal, calculate, compare, instant, negate, plain, type_name
from .views import FilterEvaluationError, FilterView

Evaluate = Callable[[FilterView], object]
Judge = Callable[[FilterView], bool | None]
Parameters = Mapping[str, object]

#: Patterns that are computed per message are few; this many are kept.
COMPUTED_PATTERNS_KEPT = 256


def compile_condition(expression: Expression, parameters: Parameters) -> Callable[[FilterView], bool]:
    judge = _judge(expression, _by_name(parameters))
    return lambda view: judge(view) is True


def compile_value(expression: Expression, parameters: Parameters) -> Evaluate:
    return _value(expression, _by_name(parameters))


def _by_name(parameters: Parameters) -> dict[str, object]:
    """Parameters are named with or without their @."""
    return {name.lower() if name.startswith("@") else f"@{name.lower()}": plain(v) for name, v in parameters.items()}


def _judge(expression: Expression, parameters: Parameters) -> Judge:
    """A closure that says true, false or None for unknown."""
    match expression:
        case Both(operands=operands):
            return _both([_judge(operand, parameters) for operand in operands])
        case Either(operands=operands):
            return _either([_judge(operand, parameters) for operand in operands])
        case Not(operand=operand):
            return _not(_judge(operand, parameters))
        case Comparison():
            return _comparison(expression, parameters)
        case Like():
            return _like(expression, parameters)
        case In():
            return _in(expression, parameters)
        case IsNull(operand=operand, negated=negated):
            value = _value(operand, parameters)
            return lambda view: (value(view) is None) is not negated
        case Exists(property=found):
            return _exists(found)
        case _:
            return _truth(_value(expression, parameters))


def _value(expression: Expression, parameters: Parameters) -> Evaluate:
    match expression:
        case Constant(value=constant):
            return lambda view: constant
        case Parameter(position=position, name=name):
            if name.lower() not in parameters:
                raise FilterError(f"At position {position}: no value was given for the parameter '{name}'.")
            parameter = parameters[name.lower()]
            return lambda view: parameter
        case Property():
            return _property(expression)
        case NewId():
            return lambda view: uuid4()
        case PropertyByName(name=computed):
            return _property_by_name(_value(computed, parameters))
        case Negation(sign=sign, operand=operand):
            inner = _value(operand, parameters)
            return lambda view: negate(sign, inner(view))
        case Arithmetic():
            return _arithmetic(expression, parameters)
        case _:
            return _judge(expression, parameters)


def _property(found: Property) -> Evaluate:
    name = found.name
    if not found.is_system:
        return lambda view: plain(view.user(name))
    if name in ("enqueuedtimeutc", "scheduledenqueuetimeutc"):
        return lambda view: _instant(view.system(name))
    if name == "timetolive":
        return lambda view: _duration(view.system(name))
    return lambda view: plain(view.system(name))


def _instant(value: object) -> object:
    return instant(value) if isinstance(value, float) else plain(value)


def _duration(value: object) -> object:
    """Beyond what a duration can hold is for ever."""
    return timedelta(seconds=min(value, FOREVER.total_seconds())) if isinstance(value, float) else plain(value)


def _property_by_name(name_of: Evaluate) -> Evaluate:
    def evaluate(view: FilterView) -> object:
        name = name_of(view)
        if name is None:
            return None
        if not isinstance(name, str):
            raise FilterEvaluationError(f"property() needs the name as a string, not {type_name(name)}.")
        return plain(view.user(name))

    return evaluate


def _arithmetic(expression: Arithmetic, parameters: Parameters) -> Evaluate:
    first = _value(expression.first, parameters)
    rest = [(symbol, _value(operand, parameters)) for symbol, operand in expression.rest]

    def evaluate(view: FilterView) -> object:
        result = first(view)
        for symbol, operand in rest:
            result = calculate(symbol, result, operand(view))
        return result

    return evaluate


def _comparison(expression: Comparison, parameters: Parameters) -> Judge:
    left, right = _value(expression.left, parameters), _value(expression.right, parameters)
    compares = compare(expression.operator)
    if expression.operator == "=" and isinstance(expression.right, Constant):
        constant = expression.right.value
        if isinstance(constant, str):
            return _equals_text(left, constant)
    return lambda view: compares(left(view), right(view))


def _equals_text(left: Evaluate, constant: str) -> Judge:
    """The commonest filter of all, without the general machinery."""

    def judge(view: FilterView) -> bool | None:
        value = left(view)
        return None if value is None else value.__class__ is str and value == constant

    return judge


def _both(judges: list[Judge]) -> Judge:
    def judge(view: FilterView) -> bool | None:
        result: bool | None = True
        for one in judges:
            found = one(view)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    return judge


def _either(judges: list[Judge]) -> Judge:
    def judge(view: FilterView) -> bool | None:
        result: bool | None = False
        for one in judges:
            found = one(view)
            if found is True:
                return True
            if found is None:
                result = None
        return result

    return judge


def _not(inner: Judge) -> Judge:
    def judge(view: FilterView) -> bool | None:
        found = inner(view)
        return None if found is None else not found

    return judge


def _truth(value_of: Evaluate) -> Judge:
    def judge(view: FilterView) -> bool | None:
        value = value_of(view)
        if value is None or isinstance(value, bool):
            return value
        raise FilterEvaluationError(f"A condition must be true or false, not {type_name(value)}.")

    return judge


def _exists(found: Property) -> Judge:
    name = found.name
    if found.is_system:
        return lambda view: view.system(name) is not None
    return lambda view: view.has_user(name)


def _in(expression: In, parameters: Parameters) -> Judge:
    operand = _value(expression.operand, parameters)
    choices = [_value(choice, parameters) for choice in expression.choices]
    negated = expression.negated
    if all(isinstance(choice, Constant) and isinstance(choice.value, str) for choice in expression.choices):
        return _in_texts(operand, frozenset(str(choice(_NO_MESSAGE)) for choice in choices), negated)

    def judge(view: FilterView) -> bool | None:
        value = operand(view)
        if value is None:
            return None
        unknown = False
        for choice in choices:
            candidate = choice(view)
            if candidate is None:
                unknown = True
            elif are_equal(value, candidate):
                return not negated
        return None if unknown else negated

    return judge


def _in_texts(operand: Evaluate, texts: frozenset[str], negated: bool) -> Judge:
    def judge(view: FilterView) -> bool | None:
        value = operand(view)
        return None if value is None else (value.__class__ is str and value in texts) is not negated

    return judge


def _like(expression: Like, parameters: Parameters) -> Judge:
    operand = _value(expression.operand, parameters)
    matcher_of = _matcher(expression, parameters)
    negated = expression.negated

    def judge(view: FilterView) -> bool | None:
        value = operand(view)
        matcher = matcher_of(view)
        if value is None or matcher is None:
            return None
        if not isinstance(value, str):
            raise FilterEvaluationError(f"LIKE needs a string, not {type_name(value)}.")
        return matcher(value) is not negated

    return judge


def _matcher(expression: Like, parameters: Parameters) -> Callable[[FilterView], Matcher | None]:
    pattern = _value(expression.pattern, parameters)
    escape = _value(expression.escape, parameters) if expression.escape is not None else None
    if isinstance(expression.pattern, Constant) and isinstance(expression.escape, Constant | None):
        try:
            fixed = _matcher_for(pattern(_NO_MESSAGE), escape(_NO_MESSAGE) if escape else "")
        except FilterEvaluationError as error:
            raise FilterError(f"At position {expression.position}: {error.description}") from error
        return lambda view: fixed
    return lambda view: _matcher_for(pattern(view), escape(view) if escape else "")


def _matcher_for(pattern: object, escape: object) -> Matcher | None:
    """None when the pattern or the escape is unknown. No ESCAPE clause is an empty text here."""
    if pattern is None or escape is None:
        return None
    if not isinstance(pattern, str) or not isinstance(escape, str):
        raise FilterEvaluationError("The pattern and the ESCAPE of LIKE must be strings.")
    return _computed(pattern, escape or None)


@lru_cache(maxsize=COMPUTED_PATTERNS_KEPT)
def _computed(pattern: str, escape: str | None) -> Matcher:
    return like(pattern, escape)


class _NoMessage:
    """Stands in where an expression is known not to look at the message."""

    def system(self, name: str) -> object | None:
        raise AssertionError(name)

    def user(self, name: str) -> object | None:
        raise AssertionError(name)

    def has_user(self, name: str) -> bool:
        raise AssertionError(name)


_NO_MESSAGE = _NoMessage()
