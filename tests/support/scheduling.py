"""Which process of a test run gets which test.

Tests of the pipeline go to one process, since every further one would start a Spark of its own; all others go wherever
there is room. (xdist has groups for that, but version 3.8 writes them to a name that pytest 9.2 does not read.)
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

SPARK = "tests/pipeline/"


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]  # the library ships no type information
    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    return OneSpark(config, log)
