"""A benchmark that fails costs its own figures only, and shows in the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from benchmarks import Figure
from benchmarks import __main__ as command
from benchmarks.broker import resident_bytes
from benchmarks.host import read_ready


def _module(name: str, *values: float, then: Exception | None = None) -> ModuleType:
    def measure() -> Iterator[Figure]:
        for value in values:
            yield Figure(name=name, value=value, unit="s")
        if then is not None:
            raise then

    module = ModuleType(name)
    module.measure = measure  # type: ignore[attr-defined]
    return module


def _run(monkeypatch: pytest.MonkeyPatch, folder: Path, *modules: ModuleType) -> tuple[int, list[float]]:
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(command, "questions", lambda only: [module.__name__ for module in modules])
    monkeypatch.setattr(command, "RESULT", folder / "bench.json")
    code = command.main([])
    return code, [figure["value"] for figure in json.loads((folder / "bench.json").read_text())]


def test_what_was_measured_is_kept_when_a_later_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = _module("broken_one", 2.0, then=RuntimeError("nothing listens"))
    found = _run(monkeypatch, tmp_path, _module("first_one", 1.0), broken, _module("last_one", 3.0))
    assert (1, [1.0, 2.0, 3.0]) == found
    said = capsys.readouterr()
    assert "broken_one failed: RuntimeError: nothing listens" in said.err
    assert "last_one" in said.out


def test_a_run_without_failures_ends_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (0, [1.0]) == _run(monkeypatch, tmp_path, _module("only_one", 1.0))


def test_the_time_of_each_part_is_a_number_of_its_own() -> None:
    line = "Ready after 3.5 s (azurite 1.2 s, broker 0.4 s, host 2.0 s)\n"
    running = SimpleNamespace(stdout=["local | starting\n", line])
    expected = (3.5, {"azurite": 1.2, "broker": 0.4, "host": 2.0})
    assert expected == read_ready(running)  # type: ignore[arg-type]


def test_memory_is_read_without_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert 10_000_000 < resident_bytes(os.getpid()) < 10_000_000_000
