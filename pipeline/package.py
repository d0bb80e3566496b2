"""Packs the pipeline for spark-submit: a zip of its Python modules, and the program that starts it.

    python -m pipeline.package --out build/spark
    spark-submit --py-files build/spark/pipeline.zip build/spark/main.py report --events ... --out ...

A zip, since Spark hands that to every Python it starts; from a wheel only the driver can import. The packages that the
modules need (requirements.txt of this project) are installed on the cluster, which brings its own pyspark.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.errors import PipelineError

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pipeline", "shared")
ZIP, MAIN = "pipeline.zip", "main.py"
#: All files look as old as the oldest time a zip can hold: the same modules make the same zip.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644 << 16


def package(out: Path) -> tuple[Path, Path]:
    """Writes both files, each whole or not at all, and returns them."""
    if not (ROOT / PACKAGES[0]).is_dir():
        raise PipelineError("packing needs the modules as files; call it in a copy of the project, not in a zip of it")
    out.mkdir(parents=True, exist_ok=True)
    target, program = out / ZIP, out / MAIN
    writing = target.with_suffix(".writing")
    with zipfile.ZipFile(writing, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files():
            entry = zipfile.ZipInfo(path.relative_to(ROOT).as_posix(), _TIME)
            entry.external_attr, entry.compress_type = _MODE, zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    writing.replace(target)
    shutil.copyfile(ROOT / "pipeline" / "__main__.py", program)
    return target, program


def _files() -> Iterator[Path]:
    for name in PACKAGES:
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".txt"):
                yield path


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.package",
        description="Packs the pipeline and the data source servicebus for spark-submit, on any cluster.",
        epilog="example: python -m pipeline.package --out build/spark   docs/spark-source.md says how to submit it",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help=f"where {ZIP} and {MAIN} are written")
    options = parser.parse_args(arguments)
    try:
        archive, program = package(options.out)
    except (PipelineError, OSError) as error:
        sys.stderr.write(f"pipeline.package: {error}\n")
        return 1
    sys.stdout.write(f"spark-submit --py-files {archive} {program} --help\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
