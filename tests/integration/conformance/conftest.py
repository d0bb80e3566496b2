"""The SDK's tests, collected once; without the source distribution skip on a laptop and fail in CI."""

from __future__ import annotations

import os

import pytest

from tests.conformance import sdist
from tests.conformance.__main__ import collect_all
from tests.conformance.worker import CollectedTest


@pytest.fixture(scope="package")
def collected() -> list[CollectedTest]:
    try:
        return collect_all()
    except sdist.SdistUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
