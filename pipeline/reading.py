"""Reads records: JSON lines as the app publishes them, or Parquet as `compact` leaves them; broken lines kept aside.

A line of an unknown version is not guessed at. What makes a line unusable is its `problem`:

- it is no JSON object, or a value has the wrong type,
- its version is another than ours: fields may mean something else there,
- it lacks what every record has.

Fields and kinds of events that are not known are left out without a word: within a version they may be added.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import PipelineError
from pipeline.schemas import BROKEN, COMPACTED, EVENTS, FILE, HEAD, LINES, PROBLEM, VERSION

#: Files that are published: names that begin with a dot or an underscore are left alone by Spark.
JSON_FILES = "*.{jsonl,jsonl.gz}"
PARQUET_FILES = "*.parquet"
#: Files that the app writes to before it publishes them.
OPEN_PREFIX = ".open-"
LINE_CHARS_MAX = 500
NOT_A_RECORD = "not a record: no JSON object, or a value of the wrong type"
OTHER_VERSION = "unknown version"
INCOMPLETE = "incomplete: without instance, seq, event or at"

JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": BROKEN,
    "pathGlobFilter": JSON_FILES,
    # Folders of date and hour are for people and for deleting; the records say when they were written.
    "recursiveFileLookup": "true",
}


def read_lines(spark: SparkSession, folder: str) -> DataFrame:
    """Every line below the folder, parsed, with what is wrong with it."""
    return _judged(spark.read.options(**JSON_OPTIONS).schema(LINES).json(folder))


def stream_lines(spark: SparkSession, folder: str, *, files_at_once_max: int) -> DataFrame:
    reader = spark.readStream.options(**JSON_OPTIONS).option("maxFilesPerTrigger", files_at_once_max)
    return _judged(reader.schema(LINES).json(folder))


def read_compacted(spark: SparkSession, *folders: str) -> DataFrame:
    """What `compact` wrote; columns that an older one did not know are null."""
    options = {"pathGlobFilter": PARQUET_FILES, "recursiveFileLookup": "true"}
    return spark.read.options(**options).schema(COMPACTED).parquet(*folders)


def _judged(lines: DataFrame) -> DataFrame:
    problem = (
        F.when(F.col(BROKEN).isNotNull(), F.lit(NOT_A_RECORD))
        .when(F.col("v").isNull(), F.lit(INCOMPLETE))
        .when(F.col("v") != VERSION, F.concat(F.lit(f"{OTHER_VERSION} "), F.col("v").cast("string")))
        .when(_any_missing(*HEAD), F.lit(INCOMPLETE))
    )
    cut = F.substring(F.col(BROKEN), 1, LINE_CHARS_MAX)
    return lines.withColumns({PROBLEM: problem, BROKEN: cut, FILE: F.col("_metadata.file_path")})


def _any_missing(*columns: str) -> Column:
    missing = F.lit(False)
    for name in columns:
        missing = missing | F.col(name).isNull()
    return missing


def events_of(lines: DataFrame) -> DataFrame:
    """The records among the lines."""
    return lines.where(F.col(PROBLEM).isNull()).select(*EVENTS.names)


def quarantine_of(lines: DataFrame) -> DataFrame:
    """The lines that are no records, cut: the text where it could not be parsed, else what was understood of it."""
    understood = F.to_json(F.struct(*[F.col(name) for name in HEAD]))
    return lines.where(F.col(PROBLEM).isNotNull()).select(
        FILE, F.coalesce(F.col(BROKEN), understood).alias("line"), F.col(PROBLEM).alias("reason")
    )


def published_files(folder: str) -> tuple[bool, bool]:
    """Whether there are JSON lines and Parquet below a local folder; errors that name what cannot be read.

    A folder of another file system is left to Spark.
    """
    if "://" in folder and not folder.startswith("file://"):
        return True, False
    root = Path(folder.removeprefix("file://"))
    if not root.is_dir():
        raise PipelineError(f"{folder} is not a folder; --events names the folder that the app writes its records to")
    json_lines = parquet = False
    for directory, folders, names in os.walk(root, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            is_json, is_parquet = name.endswith((".jsonl", ".jsonl.gz")), name.endswith(".parquet")
            if name.startswith((".", "_")) or not (is_json or is_parquet):
                continue
            path = Path(directory) / name
            if not os.access(path, os.R_OK):
                raise PipelineError(f"{path} cannot be read; give the file to this user, or move it away")
            json_lines, parquet = json_lines or is_json, parquet or is_parquet
    if not json_lines and not parquet:
        raise PipelineError(f"there are no records in {folder}: no file below it ends in .jsonl or .parquet")
    return json_lines, parquet


def unpublished_files(folder: str) -> int:
    """Files that a writer has not closed yet, or left behind when it was killed."""
    return 0 if "://" in folder else sum(1 for _ in Path(folder).glob(f"{OPEN_PREFIX}*"))


def _refuse(error: OSError) -> None:
    raise PipelineError(f"{error.filename} cannot be read: {error.strerror}")
