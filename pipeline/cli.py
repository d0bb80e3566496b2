"""The command line of the pipeline."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.generate import GenerateOptions, generate
from pipeline.job import CompactOptions, ReportOptions, Say, Wanted, compact, one_line_errors, report, say_on_stderr
from pipeline.plan import Faults, Plan
from pipeline.prices import read_prices
from pipeline.session import spark_session
from pipeline.stream import FILES_AT_ONCE, KEEP, StreamOptions, stream

_EXAMPLES = """\
examples:
  python -m pipeline report --events telemetry --out build/report
      where every message ended: Parquet tables, build/report/report.html and build/report/summary.json
  python -m pipeline stream --events telemetry --out build/live --checkpoint build/live-state --every 60
      the same report, brought up to date every minute while the app runs
  python -m pipeline generate --out build/events --messages 100000 --lost 3 --waiting 5
      made-up records to try it on, and what is planted in them in build/events/truth.json
"""
#: What a command does with Spark; what it returns is printed.
Work = Callable[[SparkSession, Say], Mapping[str, Any]]
_CONF = re.compile(r"(spark\.[^=\s]+)=(.*)", re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    say = say_on_stderr(options.command)
    try:
        settings = dict(_setting(text) for text in options.conf)
        if options.memory:
            settings["spark.driver.memory"] = options.memory
        # Spark takes seconds to start: what is wrong with the options is said before.
        work: Work = options.prepare(options)
        say("starting Spark")
        with one_line_errors():
            spark = spark_session(master=options.master, settings=settings)
        try:
            _print(work(spark, say))
        finally:
            spark.stop()
    except PipelineError as error:
        sys.stderr.write(f"pipeline: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("pipeline: stopped\n")
        return 130
    return 0


def _setting(text: str) -> tuple[str, str]:
    found = _CONF.fullmatch(text)
    if not found:
        raise PipelineError(f"--conf {text!r} is not of the form spark.key=value")
    return found[1], found[2]


# -- the commands: each checks its options, and returns what is left to do with Spark


def _wanted(options: argparse.Namespace, *, allow_unknown_versions: bool) -> Wanted:
    return Wanted(
        allow_unknown_versions=allow_unknown_versions,
        prices=read_prices(Path(options.prices)) if options.prices else None,
        tables=frozenset(options.tables.split(",")) if options.tables else None,
    )


def _report(options: argparse.Namespace) -> Work:
    chosen = _wanted(options, allow_unknown_versions=options.allow_unknown_versions)
    wanted = ReportOptions(events=options.events, out=options.out, wanted=chosen)
    wanted.check()
    return lambda spark, say: _in_short(report(spark, wanted, say))


def _stream(options: argparse.Namespace) -> Work:
    wanted = StreamOptions(
        events=options.events,
        out=options.out,
        checkpoint=options.checkpoint,
        every=None if options.every is None else timedelta(seconds=options.every),
        keep=timedelta(days=options.keep),
        files_at_once=options.files_at_once,
        wanted=_wanted(options, allow_unknown_versions=True),
    )
    wanted.check()
    return lambda spark, say: _in_short(stream(spark, wanted, say))


def _compact(options: argparse.Namespace) -> Work:
    wanted = CompactOptions(events=options.events, out=options.out)
    wanted.check()
    return lambda spark, say: compact(spark, wanted, say)


def _generate(options: argparse.Namespace) -> Work:
    faults = Faults(**{field.name: getattr(options, field.name) for field in fields(Faults)})
    plan = Plan(messages=options.messages, faults=faults, seed=options.seed)
    wanted = GenerateOptions(out=options.out, plan=plan, broken=options.broken)
    wanted.check()
    return lambda spark, say: generate(spark, wanted, say)


def _in_short(summary: Mapping[str, Any]) -> dict[str, Any]:
    names = ("accepted", "delivered", "waiting", "dead_lettered", "expired", "lost", "duplicated")
    found = {name: summary[name] for name in names if name in summary}
    return {**found, "proof": summary["proof"]["word"]} if "proof" in summary else found


def _print(result: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(result) + "\n")


# -- their options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline",
        description="Reports on what the app recorded, computed by Spark. docs/pipeline.md says what the tables mean.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser("report", help="follow every message to its end and write the report")
    _add_events(one)
    one.add_argument("--out", required=True, metavar="DIR", help="the report; replaced when it is complete, not before")
    _add_versions(one)
    _add_wanted(one)
    one.set_defaults(prepare=_report)
    _add_stream(commands.add_parser("stream", help="keep a report up to date while records come in"))
    one = commands.add_parser("compact", help="JSON lines to Parquet: a tenth as large, and faster to report on")
    _add_events(one)
    one.add_argument("--out", required=True, metavar="DIR", help="a folder that report takes as --events")
    one.set_defaults(prepare=_compact)
    one = commands.add_parser("generate", help="make up records with planted faults, and write down the truth")
    one.add_argument("--out", required=True, metavar="DIR", help="records in date=/hour= folders, and truth.json")
    one.add_argument("--messages", type=int, required=True, metavar="N", help="messages that were accepted")
    for name, text in _FAULT_HELP.items():
        one.add_argument(f"--{name.replace('_', '-')}", type=int, default=0, metavar="N", help=text)
    one.add_argument("--broken", type=int, default=0, metavar="N", help="lines that are no records")
    one.add_argument("--seed", type=int, default=1, metavar="N", help="which messages meet which fate (default: 1)")
    one.set_defaults(prepare=_generate)
    for command in commands.choices.values():
        _add_spark(command)
    return parser


def _add_stream(one: argparse.ArgumentParser) -> None:
    one.set_defaults(prepare=_stream)
    _add_events(one)
    one.add_argument("--out", required=True, metavar="DIR", help="the report, replaced whenever there is something new")
    text = "what was read so far; the next run goes on from there, also after a kill"
    one.add_argument("--checkpoint", required=True, metavar="DIR", help=text)
    _add_wanted(one)
    when = one.add_mutually_exclusive_group()
    when.add_argument("--available-now", action="store_true", help="take in what is there, and end (the default)")
    when.add_argument("--every", type=float, metavar="SECONDS", help="look for new files this often, until Ctrl-C")
    text = f"look back this long; what comes later is dropped and counted (default: {KEEP.days})"
    one.add_argument("--keep", type=float, default=float(KEEP.days), metavar="DAYS", help=text)
    text = f"files in one batch at most (default: {FILES_AT_ONCE})"
    one.add_argument("--files-at-once", type=int, default=FILES_AT_ONCE, metavar="N", help=text)


_FAULT_HELP = {
    "lost": "accepted, and not seen by an audit",
    "duplicated": "seen under two sequence numbers",
    "waiting": "in the backlog still",
    "expired": "expired in the backlog",
    "dead_lettered": "dead-lettered in the backlog",
    "late": "delivered, but the records are a month old and published last",
}


def _add_events(parser: argparse.ArgumentParser) -> None:
    text = "the folder the app writes to (TELEMETRY_FOLDER), or what compact made of it"
    parser.add_argument("--events", required=True, metavar="DIR", help=text)


def _add_wanted(parser: argparse.ArgumentParser) -> None:
    text = "what things cost you (default: pipeline/prices.json, an example)"
    parser.add_argument("--prices", metavar="FILE", help=text)
    text = "only these tables, as deliveries,outages, and no page"
    parser.add_argument("--tables", metavar="NAMES", help=text)


def _add_versions(parser: argparse.ArgumentParser) -> None:
    text = "keep records of other versions aside instead of stopping; the proof then says that it has a hole"
    parser.add_argument("--allow-unknown-versions", action="store_true", help=text)


def _add_spark(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where Spark runs")
    group.add_argument("--master", help="as for spark-submit (default: all cores of this machine, unless told there)")
    group.add_argument(
        "--memory", metavar="SIZE", help="memory of the driver (default: 2g); on one machine it does all"
    )
    group.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="any setting of Spark")
