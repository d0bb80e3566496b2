"""The SDK leaves sockets of broken connections to the garbage collector, which warns of them."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

#: For `pytest.mark.filterwarnings` on tests that break connections.
SDK_LEFTOVERS = "ignore::ResourceWarning"


@pytest.fixture(autouse=True)
def sdk_leftovers_are_swept() -> Iterator[None]:
    """So that no other test is blamed for them; import it where connections are broken."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
