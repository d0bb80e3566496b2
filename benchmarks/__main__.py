"""Runs the benchmarks, prints one table, writes build/bench.json; `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import benchmarks
from benchmarks import Figure

RESULT = Path(__file__).resolve().parents[1] / "build" / "bench.json"
COLUMNS = ("name", "value", "unit", "yardstick", "its value", "ratio", "goal", "")
TEXT_COLUMNS = frozenset({"name", "unit", "yardstick", "goal", ""})


def questions(only: str | None) -> list[str]:
    """Every module of this package that may measure, by name."""
    names = [info.name for info in pkgutil.iter_modules(benchmarks.__path__) if not info.name.startswith("_")]
    return [f"benchmarks.{name}" for name in sorted(names) if only is None or only in name]


def answer(question: str, figures: list[Figure]) -> bool:
    """Add what a module measures; whether it came to its end. What it had measured before an error counts."""
    started = time.monotonic()
    print(f"... {question}", file=sys.stderr, flush=True)
    try:
        module = importlib.import_module(question)
        for figure in module.measure() if hasattr(module, "measure") else ():
            figures.append(figure)
    except Exception as error:
        traceback.print_exc()
        print(f"    {question} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return False
    print(f"    {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return True


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def cells(figure: Figure) -> tuple[str, ...]:
    verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
    value, yardstick_value, ratio = number(figure.value), number(figure.yardstick_value), number(figure.ratio)
    return (figure.name, value, figure.unit, figure.yardstick, yardstick_value, ratio, figure.goal, verdict)


def table(figures: Sequence[Figure]) -> str:
    rows = [COLUMNS, *(cells(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = []
    for row in rows:
        padded = [
            cell.ljust(width) if heading in TEXT_COLUMNS else cell.rjust(width)
            for heading, cell, width in zip(COLUMNS, row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("--only", metavar="NAME", help="only files of benchmarks/ whose name holds this text")
    options = parser.parse_args(arguments)
    machine = f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{machine}, Python {platform.python_version()}", flush=True)
    figures: list[Figure] = []
    unanswered = [question for question in questions(options.only) if not answer(question, figures)]
    print(table(figures))
    # A run of a part must not pass for a whole one.
    result = RESULT.with_name("bench-part.json") if options.only else RESULT
    result.parent.mkdir(exist_ok=True)
    result.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
    if unanswered:
        print(f"not measured to the end: {', '.join(unanswered)}", file=sys.stderr)
    return 1 if unanswered else 0


if __name__ == "__main__":
    sys.exit(main())
