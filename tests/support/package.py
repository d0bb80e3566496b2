"""The deployment package: what .funcignore leaves of the project, as azd and Core Tools would zip it."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pathspec

from tests.support.app_process import ROOT


def package_files(root: Path = ROOT, ignore: str | None = None) -> list[Path]:
    """Relative paths, sorted. `ignore` replaces the text of .funcignore."""
    lines = ((root / ".funcignore").read_text(encoding="utf-8") if ignore is None else ignore).splitlines()
    spec = pathspec.PathSpec.from_lines("gitignore", lines)
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        here = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not spec.match_file(f"{(here / name).as_posix()}/")]
        found += [here / name for name in files if not spec.match_file((here / name).as_posix())]
    return sorted(found)


def write_package(target: Path, files: list[Path], root: Path = ROOT) -> int:
    """Its size in bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for file in files:
            package.write(root / file, file.as_posix())
    return target.stat().st_size


def foreign_files(files: list[Path]) -> list[Path]:
    """What does not belong into the package."""
    top = {"host.json", "function_app.py", "requirements.txt"}
    return [file for file in files if str(file) not in top and file.parts[0] not in ("functions", "shared")]
