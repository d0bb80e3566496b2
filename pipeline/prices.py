"""What things cost: read strictly from a file that says its date and source, so that nobody trusts a stale figure."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import PipelineError

T = TypeVar("T")
FILE_BYTES_MAX = 64 * 1024
_BANDS_MAX = 20
_TEXT_MAX = 500


class PricesError(PipelineError):
    """The prices cannot be used; the text is one line that says why and what to write instead."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """Operations of a month up to this many cost this much; None: all the rest."""

    up_to_operations_per_month: int | None
    per_million_operations: Decimal


@dataclass(frozen=True, kw_only=True)
class Prices:
    date: date
    currency: str
    source: str
    basic_per_million: Decimal
    standard_base_per_hour: Decimal
    standard_included_per_month: int
    standard_bands: tuple[Band, ...]
    premium_per_unit_hour: Decimal
    functions_per_gb_second: Decimal
    functions_per_million: Decimal
    storage_per_10000: Decimal
    transfer_per_gb: Decimal

    @property
    def standard_per_million(self) -> Decimal:
        """Of an operation beyond the included ones, before any discount by volume."""
        return self.standard_bands[0].per_million_operations


def default_prices() -> Prices:
    data = pkgutil.get_data(__name__, "prices.json")  # works in a zip given to spark-submit, too
    if data is None:
        raise PricesError("pipeline/prices.json is missing from the installed pipeline; name a file with --prices FILE")
    return parse_prices(data, "pipeline/prices.json")


def read_prices(file: Path) -> Prices:
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise PricesError(f"prices file {file}: cannot be read: {error.strerror or error}") from None
    return parse_prices(data, f"prices file {file}")


def parse_prices(data: bytes, where: str) -> Prices:
    if len(data) > FILE_BYTES_MAX:
        raise PricesError(f"{where}: larger than {FILE_BYTES_MAX // 1024} KB; see pipeline/prices.json for an example")
    try:
        root = json.loads(data, parse_float=Decimal, parse_int=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise PricesError(f"{where}: not JSON ({reason}); see pipeline/prices.json for an example") from None
    reader = _Reader(where)
    prices = _prices(reader, reader.part(root, ""))
    reader.refuse_unknown()
    return prices


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _prices(read: _Reader, root: _Part) -> Prices:
    bus = read.part(root.take("service_bus"), "service_bus")
    basic = read.part(bus.take("basic"), "service_bus.basic")
    standard = read.part(bus.take("standard"), "service_bus.standard")
    premium = read.part(bus.take("premium"), "service_bus.premium")
    functions = read.part(root.take("functions"), "functions")
    storage = read.part(root.take("state_storage"), "state_storage")
    transfer = read.part(root.take("transfer_between_regions"), "transfer_between_regions")
    return Prices(
        date=root.value("date", _date, "a date, e.g. 2026-11-18"),
        currency=root.value("currency", _currency, "three capitals, e.g. USD"),
        source=root.value("source", _text, f"a text of 1 to {_TEXT_MAX} characters: where the prices are from"),
        basic_per_million=basic.money("per_million_operations"),
        standard_base_per_hour=standard.money("base_per_hour"),
        standard_included_per_month=standard.value("included_operations_per_month", _count, "a whole number from 0"),
        standard_bands=_bands(read, standard.take("bands")),
        premium_per_unit_hour=premium.money("per_messaging_unit_hour"),
        functions_per_gb_second=functions.money("per_gb_second"),
        functions_per_million=functions.money("per_million_executions"),
        storage_per_10000=storage.money("per_10000_transactions"),
        transfer_per_gb=transfer.money("per_gb"),
    )


def _bands(read: _Reader, value: Any) -> tuple[Band, ...]:
    name = "service_bus.standard.bands"
    if not isinstance(value, list) or not 1 <= len(value) <= _BANDS_MAX:
        raise read.error(name, f"must be a list of 1 to {_BANDS_MAX} bands")
    bands = []
    for index, one in enumerate(value):
        part = read.part(one, f"{name}[{index}]")
        bands.append(
            Band(
                up_to_operations_per_month=part.value(
                    "up_to_operations_per_month", _limit, "a whole number, or null for the last band"
                ),
                per_million_operations=part.money("per_million_operations"),
            )
        )
    limits = [band.up_to_operations_per_month for band in bands]
    rising = [limit for limit in limits if limit is not None]
    if limits[-1] is not None or None in limits[:-1] or rising != sorted(set(rising)):
        raise read.error(name, "up_to_operations_per_month must rise from band to band, and be null in the last")
    return tuple(bands)


class _Reader:
    """Knows the file's name, for errors, and which names were asked for, to refuse the others."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._parts: list[_Part] = []

    def error(self, name: str, problem: str) -> PricesError:
        return PricesError(f"{self._where}: {name}: {problem}")

    def part(self, value: Any, name: str) -> _Part:
        if not isinstance(value, dict):
            raise self.error(name or "the file", "must be an object, as in pipeline/prices.json")
        part = _Part(self, value, name)
        self._parts.append(part)
        return part

    def refuse_unknown(self) -> None:
        unknown = [name for part in self._parts for name in part.unknown()]
        if unknown:
            raise self.error(unknown[0], "is not a known name; see pipeline/prices.json for an example")


class _Part:
    def __init__(self, reader: _Reader, values: dict[str, Any], name: str) -> None:
        self._reader = reader
        self._values = values
        self._name = name
        self._taken: set[str] = set()

    def take(self, key: str) -> Any:
        self._taken.add(key)
        if key not in self._values:
            raise self._reader.error(self._full(key), "is missing; see pipeline/prices.json for an example")
        return self._values[key]

    def value(self, key: str, read: Callable[[Any], T], wanted: str) -> T:
        try:
            return read(self.take(key))
        except (ValueError, TypeError, ArithmeticError):
            raise self._reader.error(self._full(key), f"must be {wanted}") from None

    def money(self, key: str) -> Decimal:
        return self.value(key, _money, "a number from 0 to 1,000,000, e.g. 0.80")

    def unknown(self) -> list[str]:
        return [self._full(key)[:80] for key in self._values if key not in self._taken]

    def _full(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


def _money(value: Any) -> Decimal:
    if not isinstance(value, Decimal) or not 0 <= value <= 1_000_000:
        raise ValueError
    return value


def _count(value: Any) -> int:
    if not isinstance(value, Decimal) or value != value.to_integral_value() or not 0 <= value <= 10**15:
        raise ValueError
    return int(value)


def _limit(value: Any) -> int | None:
    return None if value is None else _count(value)


def _date(value: Any) -> date:
    return date.fromisoformat(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _TEXT_MAX:
        raise ValueError
    return value


def _currency(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 3 or not value.isascii() or not value.isupper():
        raise ValueError
    return value
