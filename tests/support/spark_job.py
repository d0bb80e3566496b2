"""A Spark job of its own process, as somebody would submit it: tasks are run again, everything is logged.

Arguments: the broker's primary connection string, a folder for Spark's event log. The other settings come from the
environment. What it prints, logs and leaves behind is searched for secrets.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.servicebus.given import Use, read_given
from pipeline.servicebus.plans import plan_write
from pipeline.servicebus.source import ServiceBusDataSource

ROWS = 20


def say(*things: object) -> None:
    sys.stdout.write(" ".join(map(str, things)) + "\n")
    sys.stdout.flush()


def main(primary: str, folder: Path) -> None:
    builder = SparkSession.builder.appName("job")
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": folder.as_uri(),
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(ServiceBusDataSource)
    options = {"ServiceBusPrimary": primary, "entity": "orders"}

    frame = spark.range(0, ROWS, 1, 1).selectExpr("concat('body ', id) AS body")
    writer = frame.write.format("servicebus").mode("append").options(**options)
    writer.options(messageIdPrefix="job", maxInFlight="1").save()

    stored = spark.read.format("servicebus").options(**options).load()
    stored.explain("extended")
    say("stored", stored.count())
    stream = spark.readStream.format("servicebus").options(**options).load()
    stream.explain("extended")
    try:
        writer.option("entity", "nowhere").save()
    except PySparkException as error:
        say("refused", error)
    source = ServiceBusDataSource(dict(options))
    made = source.writer(frame.selectExpr("body", "body AS message_id").schema, False)
    say(repr(source), source.options, vars(made))
    say(plan_write(read_given(options, os.environ, Use.WRITE), None))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
