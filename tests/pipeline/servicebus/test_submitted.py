"""The source in jobs of their own: retried tasks, secrets, and the zip for spark-submit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipeline.package import package
from tests.support.app_process import ROOT
from tests.support.broker import KEY
from tests.support.spark_pair import SparkPair

JOB_SECONDS_MAX = 500
#: Starts sooner, and a short job never gets hot enough for the second compiler.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def run(command: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **env},
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS_MAX,
        check=False,
    )


def account_key(settings: dict[str, str]) -> str:
    found = re.search("AccountKey=([^;]+)", settings["AzureWebJobsStorage"])
    assert found is not None
    return found[1]


@pytest.mark.timeout(600)
def test_a_task_that_is_run_again_makes_no_new_ids_and_no_secret_is_seen_anywhere(
    bus: SparkPair, tmp_path: Path
) -> None:
    bus.create_entities("orders")
    bus.broker.inject(kind="error", condition="amqp:not-allowed", namespace="primary", after=5, count=1)
    settings = bus.app_settings(SSL_CERT_FILE=bus.authority_file)
    primary = settings.pop("ServiceBusPrimary")
    command = [sys.executable, "-m", "tests.support.spark_job", primary, str(tmp_path)]
    done = run(
        command,
        ROOT,
        **settings,
        PYSPARK_SUBMIT_ARGS=f"--master local[2,3] --driver-java-options '{JAVA}' pyspark-shell",
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert Counter({f"job-0-{n}": 2 if n < 5 else 1 for n in range(20)}) == bus.ids("orders")
    assert "stored 25" in done.stdout
    logs = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "row 5 of partition 0, message id 'job-0-5', was not sent: Rejected" in logs + done.stderr
    assert "message id 'job-0-0', was not sent: EntityNotFound" in done.stdout
    assert "SparkListenerSQLExecutionStart" in logs
    assert "BatchScan servicebus" in done.stdout
    assert "StreamingRelationV2" in done.stdout
    for secret in (KEY, account_key(settings)):
        assert [False, False, False] == [secret in text for text in (done.stdout, done.stderr, logs)]


def test_the_zip_alone_runs_the_pipeline_and_the_source(tmp_path: Path) -> None:
    archive, program = package(tmp_path / "spark")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    # -P: without the program's own folder, so that the zip is all there is besides installed packages.
    done = run([sys.executable, "-P", str(program), "--help"], elsewhere, PYTHONPATH=str(archive))
    assert (0, "") == (done.returncode, done.stderr)
    assert "report" in done.stdout
    look = "import pipeline.servicebus.source as a, pipeline.servicebus.sending as b; print(a.__file__, b.__file__)"
    done = run([sys.executable, "-P", "-c", look], elsewhere, PYTHONPATH=str(archive))
    assert [str(archive)] * 2 == [path.partition("/pipeline/servicebus")[0] for path in done.stdout.split()]
    assert archive.read_bytes() == package(tmp_path / "again")[0].read_bytes()


@pytest.mark.soak
def test_spark_submit_reports_and_writes_on_a_cluster_with_the_zip(bus: SparkPair, tmp_path: Path) -> None:
    """Two executors in processes of their own, which have nothing of this project but the zip."""
    archive, program = package(tmp_path / "spark")
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local-cluster[2,1,1024]"]
    submit += ["--conf", "spark.ui.enabled=false", "--py-files", str(archive)]
    settings = bus.app_settings(SSL_CERT_FILE=bus.authority_file, TELEMETRY_FOLDER=str(tmp_path / "telemetry"))
    bus.create_entities("orders")
    writing = tmp_path / "writing.py"
    writing.write_text(
        "from pyspark.sql import SparkSession\n"
        "from pipeline.servicebus.source import ServiceBusDataSource\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "spark.dataSource.register(ServiceBusDataSource)\n"
        "frame = spark.range(0, 1000, 1, 4).selectExpr(\"concat('m-', id) AS message_id\", \"'body' AS body\")\n"
        "frame.write.format('servicebus').option('entity', 'orders').mode('append').save()\n"
        "print('read back', spark.read.format('servicebus').load('orders').count())\n"
    )
    loopback = {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = run([*submit, str(writing)], tmp_path, **settings, **loopback)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "read back 1000" in done.stdout
    assert Counter({f"m-{n}": 1 for n in range(1000)}) == bus.ids("orders")
    out = tmp_path / "report"
    arguments = ["report", "--events", str(tmp_path / "telemetry"), "--out", str(out)]
    done = run([*submit, str(program), *arguments], tmp_path, **loopback)
    assert 0 == done.returncode, done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert (1000, 1000, 0) == tuple(summary[name] for name in ("accepted", "delivered", "lost"))
