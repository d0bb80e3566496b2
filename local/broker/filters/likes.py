"""LIKE patterns: % stands for any text, _ for any one character.

A pattern is cut at each % into pieces of fixed length, which are searched for from left to right. That takes time
proportional to text times pattern at worst, where a regular expression could take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .views import FilterEvaluationError

Matcher = Callable[[str], bool]
#: One character of a pattern: itself, or None for "any character".
_Piece = list[str | None]


def like(pattern: str, escape: str | None) -> Matcher:
    pieces = _pieces(pattern, escape)
    if len(pieces) == 1:
        whole = _search_at(pieces[0])
        length = len(pieces[0])
        return lambda text: len(text) == length and whole(text, 0)
    return _wildcard(pieces)


def _wildcard(pieces: list[_Piece]) -> Matcher:
    first, *middle, last = pieces
    starts, ends = _search_at(first), _search_at(last)
    finds = [(_search_from(piece), len(piece)) for piece in middle if piece]
    first_length, last_length = len(first), len(last)
    least = sum(len(piece) for piece in pieces)

    def matches(text: str) -> bool:
        if len(text) < least or not starts(text, 0) or not ends(text, len(text) - last_length):
            return False
        at, end = first_length, len(text) - last_length
        for find, length in finds:
            at = find(text, at, end)
            if at < 0:
                return False
            at += length
        return at <= end

    return matches


def _pieces(pattern: str, escape: str | None) -> list[_Piece]:
    if escape is not None and len(escape) != 1:
        raise FilterEvaluationError("The ESCAPE of LIKE must be one character.")
    pieces: list[_Piece] = [[]]
    escaped = False
    for character in pattern:
        if escaped:
            pieces[-1].append(character)
            escaped = False
        elif character == escape:
            escaped = True
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    if escaped:
        raise FilterEvaluationError("The pattern of LIKE ends with its escape character.")
    return pieces


def _expression(piece: _Piece) -> re.Pattern[str]:
    return re.compile("".join("." if character is None else re.escape(character) for character in piece), re.DOTALL)


def _search_at(piece: _Piece) -> Callable[[str, int], bool]:
    if None not in piece:
        literal = "".join(map(str, piece))
        return lambda text, at: text.startswith(literal, at)
    expression = _expression(piece)
    return lambda text, at: expression.match(text, at) is not None


def _search_from(piece: _Piece) -> Callable[[str, int, int], int]:
    if None not in piece:
        literal = "".join(map(str, piece))
        return lambda text, at, end: text.find(literal, at, end)
    expression = _expression(piece)

    def find(text: str, at: int, end: int) -> int:
        found = expression.search(text, at, end)
        return -1 if found is None else found.start()

    return find
