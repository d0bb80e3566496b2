"""Packages a machine may lack: without one a test is skipped on a laptop, and fails where CI=true."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import NoReturn

import pytest


def require(module: str, *, because: str) -> ModuleType:
    """Imports an optional module; call it at the top of a test module or in a fixture."""
    try:
        return importlib.import_module(module)
    except ImportError:
        unavailable(f"{module} is not installed: {because}")


def unavailable(reason: str) -> NoReturn:
    """What a test needs is not on this machine."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
