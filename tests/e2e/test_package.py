"""The deployment package holds the app and nothing else, and starts with requirements.txt alone."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from functions.dashboard import STATIC
from tests.conformance import runtime_check
from tests.support.app_process import ROOT
from tests.support.package import foreign_files, package_files, write_package

#: A package beyond that has something in it that does not belong there.
PACKAGE_BYTES_MAX = 1_000_000


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    package = tmp_path / "package.zip"
    files = package_files()
    size = write_package(package, files)
    print(f"deployment package: {len(files)} files, {size / 1000:.0f} kB")  # noqa: T201  # pytest -rP shows it
    assert size < PACKAGE_BYTES_MAX
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(package) as content:
        content.extractall(folder)
    return folder


def indexed(folder: Path) -> dict[str, object]:
    try:
        return runtime_check.index(folder, {})
    except runtime_check.RuntimeUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def test_the_package_holds_the_app_and_nothing_else() -> None:
    files = package_files()
    assert [] == foreign_files(files)
    assert {"host.json", "function_app.py", "requirements.txt"} <= {str(file) for file in files}
    assert {file.name for file in STATIC.iterdir()} == {file.name for file in files if file.parent.name == "static"}
    ignore = (ROOT / ".funcignore").read_text(encoding="utf-8")
    for line in ("local/", "tests/", "scripts/", "infra/"):
        assert foreign_files(package_files(ignore=ignore.replace(f"\n{line}\n", "\n"))), line


@pytest.mark.timeout(400)
def test_the_package_is_indexed_with_requirements_alone(unpacked: Path) -> None:
    answer = indexed(unpacked)
    assert "error" not in answer, answer
    names = {one["name"] for one in answer["functions"]}  # type: ignore[attr-defined]
    assert {"send", "pair_status", "ping_primary", "syphon_0", "coordinate_pair", "health", "dashboard"} <= names


@pytest.mark.timeout(400)
def test_a_package_that_needs_what_is_not_deployed_is_refused(unpacked: Path) -> None:
    app = unpacked / "function_app.py"
    app.write_text("import local.host\n" + app.read_text(encoding="utf-8"), encoding="utf-8")
    assert "local" in str(indexed(unpacked)["error"])
