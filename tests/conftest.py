"""What every test gets: a printed seed, and an environment without this app's own settings."""

from __future__ import annotations

import os
import random
import secrets

import hypothesis
import pytest

from shared import composition
from shared.connections.namespace import NAME_SETTINGS, NAMESPACE_SETTINGS
from shared.connections.storage import STORAGE_SETTINGS
from shared.settings import options
from tests.support.scheduling import pytest_xdist_make_scheduler
from tests.support.soak_report import pytest_collection_modifyitems, pytest_runtest_logreport, pytest_sessionfinish

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_runtest_logreport",
    "pytest_sessionfinish",
    "pytest_xdist_make_scheduler",
]

SEED_VARIABLE = "TEST_SEED"
OWN_SETTINGS = (*NAMESPACE_SETTINGS.values(), *NAME_SETTINGS.values(), *STORAGE_SETTINGS)

# No deadline per example: a busy machine is not a failing test, and pytest-timeout bounds every test as a whole.
hypothesis.settings.register_profile("project", deadline=None, print_blob=True)
hypothesis.settings.load_profile("project")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """One seed for the whole run, handed to hypothesis and, through the environment, to xdist's workers."""
    seed = os.environ.setdefault(SEED_VARIABLE, str(secrets.randbelow(2**32)))
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = seed


def pytest_report_header() -> str:
    seed = os.environ[SEED_VARIABLE]
    return f"seed: {seed} (repeat this run with {SEED_VARIABLE}={seed} make test)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test recorded as its `table` is shown at the end, also when it ran in one of several processes."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, text in getattr(report, "user_properties", []):
                if name == "table":
                    terminalreporter.section(report.nodeid)
                    terminalreporter.write_line(str(text))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """The run's seed, made different for every test."""
    return f"{os.environ[SEED_VARIABLE]} {request.node.nodeid}"


@pytest.fixture
def rng(seed: str) -> random.Random:
    return random.Random(seed)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {known.setting for known in options().values()}
    for name in list(os.environ):
        if name in names or name.partition("__")[0] in OWN_SETTINGS:
            monkeypatch.delenv(name)
    composition.settings.cache_clear()
