from __future__ import annotations

import pytest

from tests.support.optional import require


def test_a_package_that_is_there_is_used() -> None:
    assert require("json", because="it always is").loads("1") == 1


def test_a_missing_package_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no_such_package is not installed: it needs a compiler"):
        require("no_such_package", because="it needs a compiler")


def test_a_missing_package_fails_in_continuous_integration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no_such_package is not installed"):
        require("no_such_package", because="it needs a compiler")
