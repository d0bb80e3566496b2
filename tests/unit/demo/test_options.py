"""The command line: it teaches, and refuses by name what cannot be shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from local.broker.fault_specs import KINDS, FaultSpec
from local.demo.faults import FAULTS, LEFT_OUT
from local.demo.options import parse_options


def test_every_fault_kind_of_the_broker_is_offered_or_left_out_for_a_reason() -> None:
    assert set(KINDS) == FAULTS.keys() | LEFT_OUT.keys()
    assert set() == FAULTS.keys() & LEFT_OUT.keys()


@pytest.mark.parametrize("name", FAULTS)
def test_the_broker_takes_the_rules_and_strikes_the_primary_alone(name: str) -> None:
    specs = [FaultSpec.from_json(rule) for rule in FAULTS[name].on_primary()]
    assert name in [spec.kind for spec in specs]
    assert {"primary"} == {spec.namespace for spec in specs}


def test_nothing_given_is_a_whole_demo() -> None:
    options = parse_options([])
    assert ("refuse", 1, 20.0, True, False) == (
        options.fault, options.seed, options.rate, options.with_report, options.keep
    )  # fmt: skip
    assert "build" == options.out.name
    assert options.out / "demo" == options.folder


def test_everything_can_be_chosen(tmp_path: Path) -> None:
    options = parse_options(
        f"--duration 20 --outage 8 --rate 5 --fault full --seed 9 --keep --no-report --out {tmp_path}".split()
    )
    assert (20.0, 8.0) == dataclasses.astuple(options.schedule)
    assert (5.0, "full", 9, True, False, tmp_path) == (
        options.rate, options.fault, options.seed, options.keep, options.with_report, options.out
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--fault flood", "--fault flood: there is no such kind; choose one of refuse, black-hole"),
        ("--fault crash", "--fault crash: it ends the broker"),
        ("--fault revoke", "never fails over"),
        ("--outage 1", "--outage 1 is less than 5 seconds"),
        ("--duration 30 --outage 28", "leaves 2 s around an outage of 28 s"),
        ("--duration 1e9", "--duration 1e+09 is more than 3600 seconds"),
        ("--duration nan", "argument --duration: invalid finite value: 'nan'"),
        ("--rate 0", "--rate 0 is not above 0"),
        ("--rate 501", "--rate 501 is not above 0 and up to 500"),
        ("--picture nowhere/at/all.svg", "--picture nowhere/at/all.svg: there is no folder"),
        ("--seed x", "invalid int value: 'x'"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(
    arguments: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse_options(arguments.split())
    assert 2 == stopped.value.code
    assert complaint in capsys.readouterr().err


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse_options(["--help"])
    assert 0 == stopped.value.code
    said = capsys.readouterr().out
    for word in ("what happens:", "examples:", "make demo DEMO_ARGS=", "build/demo.json", *FAULTS):
        assert word in said
