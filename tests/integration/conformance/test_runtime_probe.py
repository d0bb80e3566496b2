"""What the check under Microsoft's runtime takes for a call that reached the app."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
RUNTIME = ROOT / "build/runtime/lib/python3.11/site-packages/azure_functions_runtime/native_invocation.py"


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The probe as it is started for this project's own app."""
    monkeypatch.setattr(sys, "argv", ["probe", str(ROOT), "invoke"])
    return importlib.reload(importlib.import_module("tests.conformance.runtime_probe"))


def _trace(*files: Path | str) -> str:
    frames = "".join(f'  File "{file}", line 7, in call\n    call()\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}KeyError: 'url'\n"


@pytest.mark.parametrize(
    "files",
    [
        (RUNTIME,),
        (RUNTIME, ROOT / ".venv/lib/python3.11/site-packages/azure/functions/http.py"),
        (ROOT / "tests/conformance/runtime_probe.py", RUNTIME),
        (Path(f"{ROOT}-other/functions/send.py"),),
    ],
    ids=["the runtime", "the runtime and a library", "the probe", "a neighbour's app"],
)
def test_an_error_in_the_runtime_alone_is_no_call_of_the_app(probe: ModuleType, files: tuple[Path, ...]) -> None:
    assert not probe._was_entered(_trace(*files))


@pytest.mark.parametrize("file", ["functions/send.py", "shared/services/pairing.py", "function_app.py"])
def test_an_error_below_the_apps_code_is_a_call_of_it(probe: ModuleType, file: str) -> None:
    assert probe._was_entered(_trace(RUNTIME, ROOT / file, ROOT / ".venv/lib/site-packages/azure/core/x.py"))
