"""The compatibility page explains every test of the SDK that is not expected to pass."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.known import KNOWN

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "compatibility.md").read_text()


def test_every_known_failure_of_the_sdks_tests_is_explained() -> None:
    names = {name.split("::")[1].split("[")[0] for name in KNOWN}
    plain = {name.replace("test_async_", "test_").removesuffix("_async") for name in names}
    assert {name for name in plain if f"`{name}`" not in PAGE} == set()
