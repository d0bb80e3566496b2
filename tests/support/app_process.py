"""Python programs of this project run in a process of their own, with exactly the settings a test gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROCESS_SECONDS_MAX = 60


def example_settings() -> dict[str, str]:
    values: dict[str, str] = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]
    return values


def run_python(*arguments: str, settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The environment of the tests is clear of this app's settings, so what is given is all there is."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
