"""Every soak test is reported, wherever it lives, and none carries a time-out of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import conftest
from tests.support import soak_report

ROOT = Path(__file__).resolve().parents[3]
HOOKS = ("pytest_collection_modifyitems", "pytest_runtest_logreport", "pytest_sessionfinish")
SOURCE = "import pytest\n\n@pytest.mark.soak\ndef test_long(record_property):\n    record_property('kills', 3)\n"


def test_the_hooks_see_every_test() -> None:
    assert [getattr(soak_report, name) for name in HOOKS] == [getattr(conftest, name, None) for name in HOOKS]


def test_figures_of_a_soak_test_are_reported(tmp_path: Path) -> None:
    """A run of its own, so that its report is not this project's."""
    report = tmp_path / "soak.json"
    (tmp_path / "test_long.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(
        f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.support import soak_report\nfrom tests.support.soak_report import {', '.join(HOOKS)}\n"
        f"soak_report.REPORT = Path({str(report)!r})\n",
        encoding="utf-8",
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = soak\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "soak", "-p", "no:hypothesispytest", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout + done.stderr
    (entry,) = json.loads(report.read_text(encoding="utf-8"))
    expected = {"name": "test_long.py::test_long", "outcome": "passed", "figures": {"kills": 3}}
    assert expected == {name: entry[name] for name in expected}


@dataclass
class Item:
    """As much of a collected test as the check looks at."""

    marks: tuple[str, ...]
    nodeid: str = "test_long.py::test_long"

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def test_a_soak_test_with_a_time_out_is_refused() -> None:
    soak_report.pytest_collection_modifyitems([Item(("soak",)), Item(("timeout",))])  # type: ignore[list-item]
    with pytest.raises(pytest.UsageError, match="test_long is a soak test and must not have a time-out mark"):
        soak_report.pytest_collection_modifyitems([Item(("soak", "timeout"))])  # type: ignore[list-item]
