"""The command line of the demo."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from local.demo.faults import FAULTS, LEFT_OUT
from local.demo.schedule import Schedule
from local.stack.options import ROOT

DURATION_S, OUTAGE_S, RATE = 70.0, 30.0, 20.0
DURATION_S_MAX = 3_600.0
OUTAGE_S_MIN = 5.0
#: Before and after the outage together: without them there is nothing to compare it with.
CALM_S_MIN = 4.0
RATE_MAX = 500.0

_STORY = """\
what happens:
  1. two namespaces on the embedded broker, Azurite and the function app start, on free ports
  2. healthy: messages go to five entities over HTTP, a receiver waits at each, all arrive at once
  3. outage: the primary breaks. For FAILOVER_INTERVAL senders are refused (503) and try again with the same
     message id; then failover engages, and messages wait in backlog queues of the secondary
  4. drain: the primary heals. A ping finds out, entities become available, the syphon delivers what waits
  5. report: all queues are looked through, Spark follows every message through the app's records, and its
     counts have to equal the demo's own. Exit code 0 only if they do and nothing accepted is lost

results: build/demo.json, build/demo/report/report.html, build/demo/demo.log

examples:
  make demo
  make demo DEMO_ARGS='--fault black-hole'
  make demo DEMO_ARGS='--fault lose-acknowledgement --rate 50'      duplicates are counted, not hidden
  python -m local.demo --duration 20 --outage 8 --no-report         a short one
"""


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    schedule: Schedule
    rate: float
    fault: str
    seed: int
    #: Results go here: demo.json, and everything else in demo/.
    out: Path
    keep: bool
    with_report: bool
    picture: Path | None

    @property
    def folder(self) -> Path:
        return self.out / "demo"


def parse_options(arguments: list[str]) -> DemoOptions:
    parser = _parser()
    given = parser.parse_args(arguments)
    calm = given.duration - given.outage
    if given.duration > DURATION_S_MAX:
        parser.error(f"--duration {given.duration:g} is more than {DURATION_S_MAX:g} seconds")
    if given.outage < OUTAGE_S_MIN:
        parser.error(f"--outage {given.outage:g} is less than {OUTAGE_S_MIN:g} seconds: failover would not engage")
    if calm < CALM_S_MIN:
        parser.error(
            f"--duration {given.duration:g} leaves {calm:g} s around an outage of {given.outage:g} s; "
            f"at least {CALM_S_MIN:g} are needed: make --duration longer or --outage shorter"
        )
    if not 0 < given.rate <= RATE_MAX:
        parser.error(f"--rate {given.rate:g} is not above 0 and up to {RATE_MAX:g} messages a second")
    if given.picture is not None and not given.picture.resolve().parent.is_dir():
        parser.error(f"--picture {given.picture}: there is no folder {given.picture.resolve().parent}")
    if given.fault not in FAULTS:
        why = LEFT_OUT.get(given.fault, "there is no such kind")
        parser.error(f"--fault {given.fault}: {why}; choose one of {', '.join(FAULTS)}")
    return DemoOptions(
        schedule=Schedule(duration_s=given.duration, outage_s=given.outage),
        rate=given.rate,
        fault=given.fault,
        seed=given.seed,
        out=given.out.resolve(),
        keep=given.keep,
        with_report=given.report,
        picture=given.picture,
    )


def finite(text: str) -> float:
    """A number; argparse names the option where it is none."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _parser() -> argparse.ArgumentParser:
    kinds = "".join(f"  {name:21} {fault.story}\n" for name, fault in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m local.demo",
        description="A rehearsed outage on this machine: the primary namespace breaks under steady traffic, heals, and "
        "every accepted message is followed to its end.",
        epilog=f"ways to break the primary (--fault):\n{kinds}\n{_STORY}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--duration", type=finite, default=DURATION_S, metavar="S", help=f"seconds of traffic (default {DURATION_S:g})"
    )
    parser.add_argument(
        "--outage", type=finite, default=OUTAGE_S, metavar="S", help=f"seconds of outage in it (default {OUTAGE_S:g})"
    )
    parser.add_argument(
        "--rate", type=finite, default=RATE, metavar="N", help=f"messages a second, all together (default {RATE:g})"
    )
    parser.add_argument("--fault", default="refuse", metavar="KIND", help="how the primary breaks (default refuse)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what the messages say (default 1)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build", metavar="DIR", help="folder for the results (default build)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the data of broker and storage as well")
    parser.add_argument("--no-report", dest="report", action="store_false", help="leave the Spark report out")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="save what the terminal showed as an SVG picture")
    return parser
