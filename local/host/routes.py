"""Route templates of HTTP functions, as ASP.NET reads them: parameters, constraints, defaults, catch-alls."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from urllib.parse import unquote

from local.host.errors import ConfigurationError

_PARAMETER = re.compile(r"\{(?P<stars>\*{0,2})(?P<name>[^{}:=?*]+)(?P<rest>(?:[^{}]|\{\{|\}\})*)\}")
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)

Constraint = Callable[[str], bool]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One `{...}` of a template."""

    name: str
    constraints: tuple[Constraint, ...] = ()
    optional: bool = False
    default: str | None = None
    catch_all: bool = False


@dataclass(frozen=True, kw_only=True)
class Template:
    """A parsed route template with the pattern that matches it."""

    text: str
    pattern: re.Pattern[str]
    parameters: tuple[Parameter, ...]
    precedence: tuple[int, ...]
    shape: str

    def match(self, path: str) -> dict[str, str] | None:
        """Route values when `path` (still percent-encoded, no leading slash) fits, else None."""
        found = self.pattern.fullmatch(path)
        if found is None:
            return None
        values: dict[str, str] = {}
        for index, parameter in enumerate(self.parameters):
            raw = found[f"p{index}"]
            if raw is None or raw == "":
                if parameter.default is not None:
                    values[parameter.name] = parameter.default
                elif not (parameter.optional or parameter.catch_all):
                    return None
                continue
            value = decode_segment(raw)
            if not all(check(value) for check in parameter.constraints):
                return None
            values[parameter.name] = value
        return values


def decode_segment(raw: str) -> str:
    """Percent-decoding as Kestrel does it: an encoded slash stays encoded."""
    return unquote(re.sub("%2f", "%252F", raw, flags=re.IGNORECASE)) if "%" in raw else raw


def parse_template(text: str) -> Template:
    """Parse a template such as `orders/{id:int?}` or `files/{*path}`."""
    parameters: list[Parameter] = []
    pattern: list[str] = []
    precedence: list[int] = []
    shape: list[str] = []
    segments = [segment for segment in text.strip("/").split("/") if segment]
    for position, segment in enumerate(segments):
        parsed = _segment_parameters(text, segment)
        if any(p.catch_all for p in parsed) and (position != len(segments) - 1 or len(parsed) != 1):
            raise ConfigurationError(f"route {text!r}: a catch-all parameter must be the whole last segment")
        pattern.append(_segment_pattern(segment, parsed, len(parameters), first=position == 0))
        precedence.append(_segment_precedence(segment, parsed))
        shape.append(_PARAMETER.sub("{}", segment).lower() if parsed else segment.lower())
        parameters.extend(parsed)
    names = [parameter.name.lower() for parameter in parameters]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"route {text!r} uses a parameter name twice")
    return Template(
        text=text,
        pattern=re.compile("".join(pattern) + "/?", re.IGNORECASE | re.DOTALL),
        parameters=tuple(parameters),
        precedence=tuple(precedence),
        shape="/".join(shape),
    )


def _segment_parameters(text: str, segment: str) -> list[Parameter]:
    parsed = [_parameter(text, match) for match in _PARAMETER.finditer(segment)]
    literal = _PARAMETER.sub("", segment)
    if "{" in literal or "}" in literal:
        raise ConfigurationError(f"route {text!r} has an unmatched brace in {segment!r}")
    return parsed


def _parameter(text: str, match: re.Match[str]) -> Parameter:
    rest = match["rest"]
    optional = rest.endswith("?")
    rest = rest[:-1] if optional else rest
    rest, _, default = rest.partition("=")
    constraints = tuple(_constraint(text, part) for part in _split_constraints(rest))
    return Parameter(
        name=match["name"].strip(),
        constraints=constraints,
        optional=optional,
        default=default or None,
        catch_all=bool(match["stars"]),
    )


def _split_constraints(rest: str) -> list[str]:
    """`:int:min(5)` -> int, min(5); colons inside parentheses belong to the argument."""
    parts: list[str] = []
    depth = 0
    for character in rest:
        depth += (character == "(") - (character == ")")
        if character == ":" and depth == 0:
            parts.append("")
        elif parts:
            parts[-1] += character
    return parts


def _segment_pattern(segment: str, parsed: Sequence[Parameter], start: int, *, first: bool) -> str:
    slash = "" if first else "/"
    if len(parsed) == 1 and _PARAMETER.fullmatch(segment):
        parameter = parsed[0]
        if parameter.catch_all:
            return f"(?P<p{start}>.*)" if first else f"(?:/(?P<p{start}>.*))?"
        if parameter.optional or parameter.default is not None:
            return f"(?:{slash}(?P<p{start}>[^/]*))?"
        return f"{slash}(?P<p{start}>[^/]+)"
    pieces: list[str] = []
    end = 0
    for index, match in enumerate(_PARAMETER.finditer(segment)):
        pieces.append(re.escape(segment[end : match.start()]) + f"(?P<p{start + index}>[^/]+?)")
        end = match.end()
    return slash + "".join(pieces) + re.escape(segment[end:])


def _segment_precedence(segment: str, parsed: Sequence[Parameter]) -> int:
    """ASP.NET's inbound order: literal, complex, constrained, plain, constrained catch-all, catch-all."""
    if not parsed:
        return 1
    if not _PARAMETER.fullmatch(segment):
        return 2
    parameter = parsed[0]
    if parameter.catch_all:
        return 4 if parameter.constraints else 5
    return 2 if parameter.constraints else 3


def _constraint(text: str, part: str) -> Constraint:
    name, _, argument = part.partition("(")
    argument = argument.removesuffix(")")
    try:
        return _CONSTRAINTS[name.lower()](argument)
    except KeyError:
        raise ConfigurationError(
            f"route {text!r}: unknown constraint {name!r}; known are {', '.join(sorted(_CONSTRAINTS))}"
        ) from None
    except (ValueError, re.error) as error:
        raise ConfigurationError(f"route {text!r}: constraint {part!r} is wrong: {error}") from None


def _whole(allowed: range) -> Callable[[str], Constraint]:
    return lambda _: lambda value: bool(re.fullmatch(r"[+-]?\d{1,19}", value)) and int(value) in allowed


def _parses(parse: Callable[[str], object]) -> Callable[[str], Constraint]:
    def check(value: str) -> bool:
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return lambda _: check


def _number(argument: str, compare: Callable[[int, int], bool]) -> Constraint:
    bound = int(argument)
    return lambda value: bool(re.fullmatch(r"[+-]?\d{1,19}", value)) and compare(int(value), bound)


def _length(argument: str) -> Constraint:
    low, _, high = argument.partition(",")
    minimum, maximum = int(low), int(high or low)
    return lambda value: minimum <= len(value) <= maximum


def _range(argument: str) -> Constraint:
    low, _, high = argument.partition(",")
    minimum, maximum = int(low), int(high)
    return lambda value: bool(re.fullmatch(r"[+-]?\d{1,19}", value)) and minimum <= int(value) <= maximum


def _regex(argument: str) -> Constraint:
    pattern = re.compile(argument.replace("{{", "{").replace("}}", "}"), re.IGNORECASE)
    return lambda value: pattern.search(value) is not None


def _min_length(argument: str) -> Constraint:
    minimum = int(argument)
    return lambda value: len(value) >= minimum


def _max_length(argument: str) -> Constraint:
    maximum = int(argument)
    return lambda value: len(value) <= maximum


_CONSTRAINTS: Mapping[str, Callable[[str], Constraint]] = {
    "int": _whole(_INT32),
    "long": _whole(_INT64),
    "alpha": lambda _: lambda value: bool(re.fullmatch("[a-zA-Z]*", value)),
    "bool": lambda _: lambda value: value.lower() in ("true", "false"),
    "datetime": _parses(datetime.fromisoformat),
    "decimal": _parses(float),
    "double": _parses(float),
    "float": _parses(float),
    "guid": _parses(uuid.UUID),
    "length": _length,
    "minlength": _min_length,
    "maxlength": _max_length,
    "min": lambda argument: _number(argument, lambda value, bound: value >= bound),
    "max": lambda argument: _number(argument, lambda value, bound: value <= bound),
    "range": _range,
    "regex": _regex,
    "required": lambda _: lambda value: value != "",
}


@dataclass(frozen=True, kw_only=True)
class Route(Generic[T]):
    """A template with the methods it answers (empty: all) and what it leads to."""

    template: Template
    methods: frozenset[str]
    target: T

    def answers(self, method: str) -> bool:
        return not self.methods or method in self.methods

    def clashes_with(self, other: Route[T]) -> bool:
        """Whether some request would fit both, so that only chance decides."""
        if self.template.shape != other.template.shape or self.template.precedence != other.template.precedence:
            return False
        return not self.methods or not other.methods or bool(self.methods & other.methods)


class Router(Generic[T]):
    """Finds the most specific route for a request."""

    def __init__(self, routes: Iterable[Route[T]]) -> None:
        ordered = sorted(routes, key=lambda route: route.template.precedence)
        self._literal: dict[str, list[Route[T]]] = {}
        self._patterns: list[Route[T]] = []
        for route in ordered:
            if route.template.parameters:
                self._patterns.append(route)
            else:
                self._literal.setdefault(route.template.text.strip("/").lower(), []).append(route)

    def find(self, method: str, path: str) -> tuple[T, dict[str, str]] | None:
        """The target and its route values; a route that does not answer the method does not match."""
        for route in self._literal.get(path.lower().rstrip("/"), ()):
            if route.answers(method):
                return route.target, {}
        for route in self._patterns:
            if route.answers(method) and (values := route.template.match(path)) is not None:
                return route.target, values
        return None
