"""How fast, how large, how soon: one file for each question, run by `python -m benchmarks`.

A file takes part by having a function `measure() -> Iterable[Figure]`; its docstring is the question. Names
that begin with an underscore are helpers. A figure is compared with a yardstick taken in the same run, because
absolute numbers say more about the machine than about the code; runs of the two sides alternate.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number beside its yardstick. `met` is None where there is no goal."""

    name: str
    value: float
    unit: str
    yardstick: str = ""
    yardstick_value: float | None = None
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two sides measured in turns: medians of each, and the median of the rounds' own ratios."""

    ours: float
    yardstick: float
    ratio: float


def compare(ours: Callable[[], float], yardstick: Callable[[], float], *, rounds: int) -> Compared:
    """Measure A, B, A, B, ... so that a machine that slows down or speeds up on the way is fair to both."""
    pairs = [(ours(), yardstick()) for _ in range(rounds)]
    return compared(pairs)


def compared(pairs: Sequence[tuple[float, float]]) -> Compared:
    return Compared(
        ours=statistics.median(pair[0] for pair in pairs),
        yardstick=statistics.median(pair[1] for pair in pairs),
        ratio=statistics.median(pair[0] / pair[1] for pair in pairs),
    )
