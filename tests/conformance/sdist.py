"""The SDK's source distribution: downloaded once, kept under build/, never committed."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "azure-servicebus"
VERSION = "7.15.0"
DOWNLOAD_SECONDS_MAX = 120
OUTPUT_LINES_SHOWN = 4

REPOSITORY = Path(__file__).resolve().parents[2]
SCRATCH = REPOSITORY / "build" / "conformance"


class SdistUnavailable(Exception):
    """The SDK's source distribution could not be had; without it there is nothing to run."""


def unpacked_tests(scratch: Path = SCRATCH) -> Path:
    """The unpacked tests of exactly the SDK version that is installed, fetched when they are not there yet."""
    require_installed_version()
    unpacked = scratch / f"azure_servicebus-{VERSION}"
    if not unpacked.is_dir():
        scratch.mkdir(parents=True, exist_ok=True)
        # Everything happens in a folder of this process's own and ends in one rename, so that neither an
        # interrupted run nor one beside it leaves half a folder behind.
        with tempfile.TemporaryDirectory(dir=scratch, prefix="fetching-") as partial:
            unpack(download(Path(partial)), Path(partial))
            try:
                (Path(partial) / unpacked.name).rename(unpacked)
            except OSError:
                if not unpacked.is_dir():  # another run was faster
                    raise
    return unpacked / "tests"


def require_installed_version() -> None:
    try:
        installed = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise SdistUnavailable(f"{PACKAGE} is not installed; run `make setup` first") from None
    if installed != VERSION:
        raise SdistUnavailable(f"{PACKAGE} {installed} is installed, the tests belong to {VERSION}")


def download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    command += ["--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise SdistUnavailable(f"downloading {PACKAGE} {VERSION} took over {DOWNLOAD_SECONDS_MAX} s") from None
    archive = folder / f"azure_servicebus-{VERSION}.tar.gz"
    if done.returncode != 0 or not archive.is_file():
        last_lines = "\n".join((done.stdout + done.stderr).strip().splitlines()[-OUTPUT_LINES_SHOWN:])
        raise SdistUnavailable(f"{PACKAGE} {VERSION} could not be downloaded:\n{last_lines}")
    return archive


def unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise SdistUnavailable(f"{archive.name} is damaged: {error}") from error
