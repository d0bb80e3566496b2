"""Text of a filter or action, cut into tokens that know where they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from local.broker.errors import FilterError

INT64_MAX = 2**63 - 1

KEYWORDS = frozenset(
    {"AND", "OR", "NOT", "LIKE", "ESCAPE", "IN", "IS", "NULL", "EXISTS", "TRUE", "FALSE", "SET", "REMOVE"}
)


class Kind(Enum):
    KEYWORD = "keyword"
    NAME = "name"
    #: A name in brackets or double quotes, which is never a keyword or a function.
    DELIMITED = "delimited name"
    PARAMETER = "parameter"
    STRING = "string"
    INTEGER = "whole number"
    REAL = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    #: Keywords in upper case, names and strings without their quotes, symbols as they are.
    text: str
    #: 1-based position of the first character, as shown to people.
    position: int
    value: str | int | float | None = None

    def shown(self) -> str:
        return "the end of the text" if self.kind is Kind.END else f"'{self.text}'"


_PATTERN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<real>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<integer>[0-9]+)
  | (?P<string>'(?:[^']|'')*')
  | (?P<bracketed>\[(?:[^\]]|\]\])+\])
  | (?P<quoted>"(?:[^"]|"")+")
  | (?P<parameter>@[^\W]\w*)
  | (?P<name>[^\W\d_]\w*)
  | (?P<symbol><>|!=|<=|>=|[=<>+\-*/%().,;])
    """,
    re.VERBOSE,
)
_UNCLOSED = {"'": "a closing '", '"': 'a name and a closing "', "[": "a name and a closing ]", "@": "a parameter name"}


def tokenize(text: str) -> list[Token]:
    tokens = []
    at = 0
    while at < len(text):
        found = _PATTERN.match(text, at)
        if found is None:
            raise _unreadable(text, at)
        if found.lastgroup != "space":
            tokens.append(_token(str(found.lastgroup), found.group(), at + 1))
        at = found.end()
    tokens.append(Token(Kind.END, "", len(text) + 1))
    return tokens


def _unreadable(text: str, at: int) -> FilterError:
    character = text[at]
    if character in _UNCLOSED:
        return FilterError(f"At position {at + 1}: expected {_UNCLOSED[character]}.")
    return FilterError(f"At position {at + 1}: the character {character!r} has no meaning here.")


def _token(group: str, text: str, position: int) -> Token:
    match group:
        case "integer":
            return Token(Kind.INTEGER, text, position, _integer(text, position))
        case "real":
            return Token(Kind.REAL, text, position, _real(text, position))
        case "string":
            return Token(Kind.STRING, text, position, text[1:-1].replace("''", "'"))
        case "bracketed":
            return Token(Kind.DELIMITED, text, position, text[1:-1].replace("]]", "]"))
        case "quoted":
            return Token(Kind.DELIMITED, text, position, text[1:-1].replace('""', '"'))
        case "parameter":
            return Token(Kind.PARAMETER, text, position, text)
        case "name" if text.upper() in KEYWORDS:
            return Token(Kind.KEYWORD, text.upper(), position)
        case "name":
            return Token(Kind.NAME, text, position, text)
        case _:
            return Token(Kind.SYMBOL, text, position)


def _integer(text: str, position: int) -> int:
    value = int(text)
    if value > INT64_MAX:
        raise FilterError(f"At position {position}: {text} does not fit a 64-bit integer.")
    return value


def _real(text: str, position: int) -> float:
    value = float(text)
    if value == float("inf"):
        raise FilterError(f"At position {position}: {text} does not fit a double.")
    return value
