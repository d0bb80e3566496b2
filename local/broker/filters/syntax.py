"""The tree that a filter or action is parsed into."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    position: int
    #: None is NULL.
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Parameter:
    position: int
    name: str


@dataclass(frozen=True, slots=True)
class Property:
    position: int
    name: str
    is_system: bool = False


@dataclass(frozen=True, slots=True)
class NewId:
    position: int


@dataclass(frozen=True, slots=True)
class PropertyByName:
    """property(name) or p(name): a user property whose name is computed."""

    position: int
    name: Expression


@dataclass(frozen=True, slots=True)
class Negation:
    """Unary minus or plus."""

    position: int
    sign: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operators of one precedence, applied from left to right. Flat, so that a long sum is not a deep tree."""

    position: int
    first: Expression
    rest: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    position: int
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Like:
    position: int
    operand: Expression
    pattern: Expression
    escape: Expression | None
    negated: bool


@dataclass(frozen=True, slots=True)
class In:
    position: int
    operand: Expression
    choices: tuple[Expression, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    position: int
    operand: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class Exists:
    position: int
    property: Property


@dataclass(frozen=True, slots=True)
class Not:
    position: int
    operand: Expression


@dataclass(frozen=True, slots=True)
class Both:
    """AND of two or more."""

    position: int
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """OR of two or more."""

    position: int
    operands: tuple[Expression, ...]


Condition = Comparison | Like | In | IsNull | Exists | Not | Both | Either
Value = Constant | Parameter | Property | NewId | PropertyByName | Negation | Arithmetic
Expression = Condition | Value


@dataclass(frozen=True, slots=True)
class SetProperty:
    property: Property
    value: Expression


@dataclass(frozen=True, slots=True)
class RemoveProperty:
    property: Property


Statement = SetProperty | RemoveProperty
