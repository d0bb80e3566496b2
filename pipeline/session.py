"""The only place that makes a SparkSession, and that looks for the Java it runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.errors import PipelineError

JAVA_MAJOR_MIN = 17
JAVA_VERSION_SECONDS_MAX = 20
DRIVER_MEMORY = "2g"
#: Where set-up leaves the packaged Java on a machine that has none.
PACKAGED_JAVA = Path(sys.prefix) / "java"
LOGGING = Path(__file__).with_name("log4j2.properties")
#: Set by spark-submit, and by clients of Spark Connect: where it runs is decided there.
DECIDED_ELSEWHERE = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "MASTER")

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": DRIVER_MEMORY,
    # Files of a stream are taken by name and time of change, and a live view keeps no more than this of its own past.
    "spark.sql.streaming.minBatchesToRetain": "10",
}


def spark_session(
    *, name: str = "paired namespaces", master: str | None = None, java_options: str = "", settings: Mapping[str, str]
) -> SparkSession:
    """A session on this machine, or on the cluster that spark-submit or SPARK_REMOTE name."""
    builder = SparkSession.builder.appName(name)
    wanted = {"spark.sql.session.timeZone": "UTC", **settings}
    if master is not None or not any(os.environ.get(variable) for variable in DECIDED_ELSEWHERE):
        use_java()
        # Python sources run in processes of their own, which must find the packages that this one has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(master or "local[*]")
        logging = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
        wanted = {**SETTINGS, "spark.driver.extraJavaOptions": f"{logging} {java_options}".strip(), **settings}
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def use_java() -> None:
    """Points Spark at the machine's Java, or at the packaged one; a clear error where there is neither."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found and (major := java_major(Path(found))) is not None and major >= JAVA_MAJOR_MIN:
        return
    if (PACKAGED_JAVA / "bin" / "java").exists():
        os.environ["JAVA_HOME"] = str(PACKAGED_JAVA)
        return
    what = f"{found} is too old or does not run" if found else "there is no Java"
    raise PipelineError(
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer and {what}; install it (Debian: openjdk-17-jre-headless), "
        "or call `make setup` for a packaged one"
    )


def java_major(java: Path) -> int | None:
    """From the file beside it, which is quick; by asking it where there is none."""
    release = java.resolve().parent.parent / "release"
    if release.is_file():
        text = release.read_text(errors="replace")
    else:
        try:
            done = subprocess.run(
                [str(java), "-version"], capture_output=True, text=True, timeout=JAVA_VERSION_SECONDS_MAX, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        text = done.stderr
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None
