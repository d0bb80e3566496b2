"""Tokens to trees, by precedence climbing. Every error says where it is and what was expected there."""

from __future__ import annotations

from typing import NoReturn

from local.broker.errors import FilterError

from .lexing import Kind, Token, tokenize
from .syntax import (
    Arithmetic,
    Both,
    Comparison,
    Condition,
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
    RemoveProperty,
    SetProperty,
    Statement,
)
from .views import READABLE_SYSTEM, TIME_TO_LIVE, WRITABLE_TEXT_SYSTEM

#: Service Bus quotas: text of a filter or action, statements of an action.
TEXT_CHARS_MAX = 1024
ACTION_STATEMENTS_MAX = 32
#: Our own bound, far above what 1024 characters of sensible text need.
NESTING_MAX = 64

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN = range(1, 8)
_SYMBOL_BINDING = {
    **dict.fromkeys(("=", "<>", "!=", "<", "<=", ">", ">="), _COMPARE),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_KEYWORD_BINDING = {"OR": _OR, "AND": _AND, "IS": _COMPARE, "IN": _COMPARE, "LIKE": _COMPARE, "NOT": _COMPARE}
_CONDITIONS = (Comparison, Like, In, IsNull, Exists, Not, Both, Either)


def parse_condition(text: str) -> Expression:
    parser = _Parser(text, "filter")
    expression = parser.expression(_OR)
    parser.expect_end("AND, OR or the end of the text")
    require_condition(expression)
    return expression


def parse_action(text: str) -> tuple[Statement, ...]:
    parser = _Parser(text, "action")
    statements: list[Statement] = []
    while not parser.at_end():
        if len(statements) == ACTION_STATEMENTS_MAX:
            raise FilterError(f"An action may have {ACTION_STATEMENTS_MAX} statements; this one has more.")
        statements.append(parser.statement())
    if not statements:
        raise FilterError("At position 1: expected SET or REMOVE, found the end of the text.")
    return tuple(statements)


def require_condition(expression: Expression) -> None:
    """A value can stand for a condition only if it may turn out to be true or false."""
    is_wrong_constant = isinstance(expression, Constant) and not isinstance(expression.value, bool | None)
    if is_wrong_constant or isinstance(expression, Arithmetic | Negation | NewId):
        raise FilterError(f"At position {expression.position}: expected a condition, found a value.")


class _Parser:
    def __init__(self, text: str, what: str) -> None:
        if len(text) > TEXT_CHARS_MAX:
            raise FilterError(f"The {what} is {len(text)} characters long; the limit is {TEXT_CHARS_MAX}.")
        self._tokens = tokenize(text)
        self._at = 0
        self._nesting = 0

    # -- statements

    def statement(self) -> Statement:
        if self._take_keyword("SET"):
            target = self._writable(self._property())
            self._expect("=", "=")
            statement: Statement = SetProperty(target, self.expression(_SUM))
        elif self._take_keyword("REMOVE"):
            target = self._property()
            if target.is_system:
                raise FilterError(f"At position {target.position}: only user properties can be removed.")
            statement = RemoveProperty(target)
        else:
            self._fail("SET or REMOVE")
        self._take_symbol(";")
        return statement

    @staticmethod
    def _writable(target: Property) -> Property:
        if target.is_system and target.name not in WRITABLE_TEXT_SYSTEM and target.name != TIME_TO_LIVE:
            raise FilterError(f"At position {target.position}: the system property '{target.name}' cannot be set.")
        return target

    # -- expressions

    def expression(self, binding: int) -> Expression:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise FilterError(f"At position {self._peek().position}: nested deeper than {NESTING_MAX} levels.")
        left = self._prefix(binding)
        while (found := self._infix_binding()) >= binding:
            left = self._infix(left, found)
            if found == _COMPARE and self._infix_binding() == _COMPARE:
                self._fail("AND, OR or the end of the condition")
        self._nesting -= 1
        return left

    def _prefix(self, binding: int) -> Expression:
        token = self._peek()
        if token.kind is Kind.KEYWORD and token.text == "NOT" and binding <= _NOT:
            self._next()
            operand = self.expression(_NOT)
            require_condition(operand)
            return Not(token.position, operand)
        if token.kind is Kind.SYMBOL and token.text in "+-":
            self._next()
            return Negation(token.position, token.text, self._value(_SIGN))
        return self._primary()

    def _primary(self) -> Expression:
        token = self._peek()
        if token.kind in (Kind.NAME, Kind.DELIMITED):
            is_function = token.kind is Kind.NAME and self._tokens[self._at + 1].text == "("
            return self._function(self._next()) if is_function else self._property()
        self._next()
        match token.kind:
            case Kind.INTEGER | Kind.REAL | Kind.STRING:
                return Constant(token.position, token.value)
            case Kind.PARAMETER:
                return Parameter(token.position, token.text)
            case Kind.KEYWORD if token.text in ("TRUE", "FALSE", "NULL"):
                return Constant(token.position, {"TRUE": True, "FALSE": False, "NULL": None}[token.text])
            case Kind.KEYWORD if token.text == "EXISTS":
                return self._exists(token)
            case Kind.SYMBOL if token.text == "(":
                inner = self.expression(_OR)
                self._expect(")", "a closing )")
                return inner
            case _:
                raise self._unexpected(token, "a value")

    def _function(self, token: Token) -> Expression:
        name = token.text.lower()
        if name not in ("newid", "property", "p"):
            raise FilterError(f"At position {token.position}: there is no function '{token.text}'.")
        self._expect("(", "(")
        if name == "newid":
            self._expect(")", "a closing )")
            return NewId(token.position)
        argument = self._value(_SUM)
        self._expect(")", "a closing )")
        return PropertyByName(token.position, argument)

    def _exists(self, token: Token) -> Exists:
        self._expect("(", "(")
        found = self._property()
        self._expect(")", "a closing )")
        return Exists(token.position, found)

    def _property(self) -> Property:
        token = self._name()
        if not self._take_symbol("."):
            return Property(token.position, str(token.value))
        scope = str(token.value).lower()
        if scope not in ("sys", "user"):
            raise FilterError(f"At position {token.position}: the scope must be sys or user, not '{token.value}'.")
        name = self._name()
        if scope == "user":
            return Property(name.position, str(name.value))
        return self._system_property(name)

    def _name(self) -> Token:
        token = self._next()
        if token.kind not in (Kind.NAME, Kind.DELIMITED):
            raise self._unexpected(token, "the name of a property")
        return token

    @staticmethod
    def _system_property(name: Token) -> Property:
        lowered = str(name.value).lower()
        if lowered not in READABLE_SYSTEM:
            raise FilterError(f"At position {name.position}: there is no system property '{name.value}'.")
        return Property(name.position, "label" if lowered == "subject" else lowered, is_system=True)

    # -- operators

    def _infix_binding(self) -> int:
        token = self._peek()
        if token.kind is Kind.SYMBOL:
            return _SYMBOL_BINDING.get(token.text, 0)
        if token.kind is Kind.KEYWORD:
            return _KEYWORD_BINDING.get(token.text, 0)
        return 0

    def _infix(self, left: Expression, binding: int) -> Expression:
        token = self._next()
        if binding == _OR:
            return self._junction(left, Either, binding)
        if binding == _AND:
            return self._junction(left, Both, binding)
        if binding in (_SUM, _PRODUCT):
            return self._arithmetic(left, token, binding)
        return self._condition(left, token)

    def _junction(self, left: Expression, kind: type[Both] | type[Either], binding: int) -> Expression:
        require_condition(left)
        operands = [left]
        keyword = "OR" if kind is Either else "AND"
        while True:
            operand = self.expression(binding + 1)
            require_condition(operand)
            operands.append(operand)
            if not self._take_keyword(keyword):
                return kind(left.position, tuple(operands))

    def _arithmetic(self, left: Expression, token: Token, binding: int) -> Arithmetic:
        self._require_value(left)
        rest = [(token.text, self._value(binding + 1))]
        while self._infix_binding() == binding:
            rest.append((self._next().text, self._value(binding + 1)))
        return Arithmetic(left.position, left, tuple(rest))

    def _condition(self, left: Expression, token: Token) -> Condition:
        if token.kind is Kind.SYMBOL:
            operator = "<>" if token.text == "!=" else token.text
            return Comparison(token.position, operator, left, self.expression(_SUM))
        if token.text == "IS":
            negated = self._take_keyword("NOT")
            self._expect_keyword("NULL")
            return IsNull(token.position, left, negated)
        negated = token.text == "NOT"
        if negated:
            token = self._next()
        if token.text == "IN" and token.kind is Kind.KEYWORD:
            return In(token.position, left, self._choices(), negated)
        if token.text == "LIKE" and token.kind is Kind.KEYWORD:
            pattern = self._value(_SUM)
            escape = self._value(_SUM) if self._take_keyword("ESCAPE") else None
            return Like(token.position, left, pattern, escape, negated)
        raise self._unexpected(token, "IN or LIKE")

    def _choices(self) -> tuple[Expression, ...]:
        self._expect("(", "(")
        choices = [self.expression(_SUM)]
        while self._take_symbol(","):
            choices.append(self.expression(_SUM))
        self._expect(")", "a comma or a closing )")
        return tuple(choices)

    def _value(self, binding: int) -> Expression:
        value = self.expression(binding)
        self._require_value(value)
        return value

    @staticmethod
    def _require_value(expression: Expression) -> None:
        if isinstance(expression, _CONDITIONS):
            raise FilterError(f"At position {expression.position}: expected a value, found a condition.")

    # -- tokens

    def at_end(self) -> bool:
        return self._peek().kind is Kind.END

    def expect_end(self, expected: str) -> None:
        if not self.at_end():
            self._fail(expected)

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def _is_symbol(self, text: str) -> bool:
        token = self._peek()
        return token.kind is Kind.SYMBOL and token.text == text

    def _take_symbol(self, text: str) -> bool:
        found = self._is_symbol(text)
        self._at += found
        return found

    def _take_keyword(self, text: str) -> bool:
        token = self._peek()
        found = token.kind is Kind.KEYWORD and token.text == text
        self._at += found
        return found

    def _expect(self, symbol: str, shown: str) -> None:
        if not self._take_symbol(symbol):
            self._fail(shown)

    def _expect_keyword(self, keyword: str) -> None:
        if not self._take_keyword(keyword):
            self._fail(keyword)

    def _fail(self, expected: str) -> NoReturn:
        raise self._unexpected(self._peek(), expected)

    @staticmethod
    def _unexpected(token: Token, expected: str) -> FilterError:
        return FilterError(f"At position {token.position}: expected {expected}, found {token.shown()}.")
