"""Promises of the files around the code: pinned lists, documents, ignore lists, the Makefile."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from shared.version import VERSION
from tests.support.app_process import ROOT

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]
COMMAND_SECONDS_MAX = 60
PYTHON = ".venv/bin/python"
# Shown commands that would start this very run again, take minutes, or start servers; make only tells what it would do.
DRY_RUN_ONLY = {
    f"make {target}" for target in ("run", "demo", "test", "check", "bench", "soak", "conformance", "clean")
}
TARGETS = {"help", "setup", "run", "demo", "test", "check", "bench", "soak", "conformance", "clean"}


def pins(name: str) -> dict[str, str]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    found = {}
    for line in filter(None, lines):
        if not line.startswith("-r "):
            package, version = line.split("==")
            found[canonicalize_name(package)] = version
    return found


def needed_by(package: str) -> set[str]:
    wanted = map(Requirement, importlib.metadata.requires(package) or [])
    return {canonicalize_name(one.name) for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})}


PINNED_LISTS = ("requirements.txt", "pipeline/requirements.txt", "requirements-dev.txt")


@pytest.mark.parametrize("files", [PINNED_LISTS[:1], PINNED_LISTS[:2], PINNED_LISTS])
def test_what_pinned_packages_need_is_pinned_too(files: tuple[str, ...]) -> None:
    pinned = {package for name in files for package in pins(name)}
    assert {} == {package: missing for package in sorted(pinned) if (missing := needed_by(package) - pinned)}


def test_nothing_is_pinned_twice() -> None:
    packages = [package for name in PINNED_LISTS for package in pins(name)]
    assert sorted(set(packages)) == sorted(packages)


def test_only_what_the_app_needs_is_deployed() -> None:
    direct = {"azure-functions", "azure-functions-durable", "azure-servicebus", "azure-identity", "azure-data-tables"}
    reached = {*direct, "azure-storage-blob", "aiohttp"}
    while grown := set().union(*map(needed_by, reached)) - reached:
        reached |= grown
    assert reached == pins("requirements.txt").keys()


def test_installed_packages_are_the_pinned_ones() -> None:
    pinned = {package: version for name in PINNED_LISTS for package, version in pins(name).items()}
    assert pinned == {package: importlib.metadata.version(package) for package in pinned}


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert VERSION == project["version"]


def test_lock_files_name_no_registry() -> None:
    lock = json.loads((ROOT / "local" / "azurite" / "package-lock.json").read_text())
    wanted = json.loads((ROOT / "local" / "azurite" / "package.json").read_text())["dependencies"]
    assert wanted["azurite"] == lock["packages"]["node_modules/azurite"]["version"]
    assert [] == [name for name, package in lock["packages"].items() if "resolved" in package]


def test_host_json_asks_for_the_current_extension_bundle() -> None:
    host = json.loads((ROOT / "host.json").read_text())
    assert ("2.0", "[4.*, 5.0.0)") == (host["version"], host["extensionBundle"]["version"])


def test_every_folder_that_is_not_deployed_is_ignored_by_deployment() -> None:
    ignored = {line.strip("/") for line in (ROOT / ".funcignore").read_text().splitlines()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {Path(path).parts[0] for path in tracked if "/" in path and not path.startswith(".")}
    assert folders - {"functions", "shared"} <= ignored


@pytest.mark.parametrize("path", ["local.settings.json", ".venv/bin/python", "build/bench.json", "ca.key", "ca.pem"])
def test_secrets_and_products_are_kept_out_of_git(path: str) -> None:
    assert 0 == subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT, check=False).returncode


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("make", "--no-print-directory", *arguments)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    # A make inside `make test` must not inherit the outer one's flags.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )


def test_make_alone_explains_every_target() -> None:
    done = make()
    assert (0, TARGETS) == (done.returncode, set(re.findall(r"^  ([a-z]+) +\S", done.stdout, re.MULTILINE)))
    assert done.stdout == make("help").stdout
    assert "first call" in done.stdout


def shown_commands() -> list[str]:
    found = []
    for name in DOCUMENTS:
        for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL):
            found += [line.partition(" #")[0].strip() for line in block.splitlines() if line.strip()]
    return sorted(set(found))


def test_the_two_commands_are_shown() -> None:
    assert {"make run", "make test"} <= set(shown_commands())


@pytest.mark.parametrize("command", shown_commands())
def test_every_command_shown_works(command: str) -> None:
    program, *arguments = command.split()
    assert program in ("make", PYTHON), "a document shows a command that no test runs: extend this test"
    # tests/e2e runs what `make run` runs; the others would run this very test again, or take long.
    dry_run = ["--dry-run"] if " ".join(command.split()[:2]) in DRY_RUN_ONLY else []
    done = make(*dry_run, *arguments) if program == "make" else run(sys.executable, *arguments)
    assert 0 == done.returncode, done.stderr
    assert done.stdout


@pytest.mark.parametrize("name", [*DOCUMENTS, "docs/settings.md"])
def test_links_between_documents_lead_somewhere(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [] == [link for link in links if not (page.parent / link).exists()]
