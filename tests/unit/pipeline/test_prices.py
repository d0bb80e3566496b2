"""A price file is taken whole or refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipeline.prices import FILE_BYTES_MAX, PricesError, default_prices, parse_prices, read_prices

ROOT = Path(__file__).resolve().parents[3]


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    data = json.loads((ROOT / "pipeline/prices.json").read_text())
    change(data)
    return json.dumps(data).encode()


def test_the_shipped_prices_say_their_date_source_and_currency() -> None:
    prices = default_prices()
    assert (date(2026, 11, 18), "USD") == (prices.date, prices.currency)
    assert "Azure price pages" in prices.source
    assert Decimal("0.80") == prices.standard_per_million


def test_a_file_replaces_the_shipped_prices(tmp_path: Path) -> None:
    file = tmp_path / "ours.json"
    file.write_bytes(changed(lambda data: data.update(currency="EUR", date="2027-01-31")))
    prices = read_prices(file)
    assert (date(2027, 1, 31), "EUR") == (prices.date, prices.currency)


def standard(data: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = data["service_bus"]["standard"]
    return part


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "x: not JSON"),
        (b"{", "x: not JSON"),
        (b"\xff\xfe\xfd", "x: not JSON"),
        (b"[" * 50_000, "x: not JSON"),
        (b"[]", "x: the file: must be an object"),
        (b'{"date": NaN}', "x: not JSON (NaN is not a number)"),
        (b" " * (FILE_BYTES_MAX + 1), "x: larger than 64 KB"),
        (changed(lambda d: d.pop("currency")), "x: currency: is missing"),
        (changed(lambda d: d.update(currency="dollars")), "x: currency: must be three capitals, e.g. USD"),
        (changed(lambda d: d.update(date="yesterday")), "x: date: must be a date, e.g. 2026-11-18"),
        (changed(lambda d: d.update(date=5)), "x: date: must be a date"),
        (changed(lambda d: d.update(source="")), "x: source: must be a text"),
        (changed(lambda d: d.update(service_bus=1)), "x: service_bus: must be an object"),
        (
            changed(lambda d: standard(d).update(base_per_hour=-1)),
            "x: service_bus.standard.base_per_hour: must be a nu",
        ),
        (
            changed(lambda d: standard(d).update(base_per_hour="1")),
            "x: service_bus.standard.base_per_hour: must be a n",
        ),
        (changed(lambda d: standard(d).update(base_per_hour=True)), "x: service_bus.standard.base_per_hour: must be a"),
        (changed(lambda d: standard(d).update(bands=[])), "x: service_bus.standard.bands: must be a list of 1 to 20"),
        (changed(lambda d: standard(d)["bands"].pop()), "x: service_bus.standard.bands: up_to_operations_per_month mu"),
        (changed(lambda d: standard(d)["bands"].reverse()), "x: service_bus.standard.bands: up_to_operations_per_mon"),
        (
            changed(lambda d: standard(d)["bands"][0].update(per_million_operations=None)),
            "x: service_bus.standard.bands[0].per_million_operations: must be a number from 0",
        ),
        (
            changed(lambda d: standard(d).update(included_operations_per_month=1.5)),
            "x: service_bus.standard.included_operations_per_month: must be a whole number",
        ),
        (changed(lambda d: d["functions"].update(per_gb_secnd=1)), "x: functions.per_gb_secnd: is not a known name"),
    ],
)
def test_bad_prices_are_refused_in_one_line_that_names_what_is_wrong(data: bytes, complaint: str) -> None:
    with pytest.raises(PricesError) as caught:
        parse_prices(data, "x")
    text = str(caught.value)
    assert text.startswith(complaint), text
    assert "\n" not in text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PricesError, match=r"missing\.json: cannot be read: No such file"):
        read_prices(tmp_path / "missing.json")
