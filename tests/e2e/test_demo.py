"""`make demo`: a short one ends with an exact ledger, and one that is stopped leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

from tests.support.local_command import Command, alive

SHORT = ("--duration", "10", "--outage", "5", "--rate", "10", "--no-report")

WHOLE_S_MAX = 110.0


def demo(out: Path, *arguments: str) -> Command:
    return Command("local.demo", "--out", str(out), *arguments)


def test_a_short_outage_ends_with_an_exact_ledger(tmp_path: Path) -> None:
    command = demo(tmp_path, *SHORT, "--fault", "error")
    assert 0 == command.ended(WHOLE_S_MAX), command.text
    figures = json.loads((tmp_path / "demo.json").read_text())
    ends = figures["delivered"] + figures["waiting"] + figures["dead_lettered"]
    assert (105, 105, 105, 0, []) == (
        figures["sent"], figures["accepted"], ends, figures["lost"], figures["findings"]
    )  # fmt: skip
    assert 0 < figures["accepted_by_backlog"] < 105
    assert 0 < figures["longest_send_s"] < 30
    assert "\x1b[" not in command.text
    for promise in ("OUTAGE for 5 s", "unavailable, ", "the primary is healed", "available, ", "  lost           0"):
        assert promise in command.text
    assert command.lines[-1].startswith("EXACT: ")
    assert [] == [path.name for path in (tmp_path / "demo").glob("data")], "the data of broker and storage is kept"
    # Every promise above can be checked again from the records: they have a line for each accepted message.
    records = "".join(path.read_text() for path in (tmp_path / "demo" / "telemetry").rglob("*.jsonl"))
    assert 105 == len(set(re.findall(r'"event":"send.accepted".*?"message_id":"([^"]+)"', records)))
    assert 105 == len(set(re.findall(r'"event":"message.received".*?"message_id":"([^"]+)"', records)))


def test_ctrl_c_in_the_middle_leaves_no_process_and_no_data_behind(tmp_path: Path) -> None:
    command = demo(tmp_path, *SHORT)
    command.until("OUTAGE")
    pids = command.descendants()
    assert 3 <= len(pids)
    command.process.send_signal(signal.SIGINT)
    assert 130 == command.ended(), command.text
    assert "demo: stopped; nothing runs any more" == command.lines[-1]
    assert [] == [pid for pid in pids if alive(pid)]
    assert not (tmp_path / "demo.json").exists()
    assert not (tmp_path / "demo" / "data").exists()


def test_a_second_one_in_the_same_folder_is_refused_and_the_first_can_be_ended_while_it_starts(tmp_path: Path) -> None:
    first = demo(tmp_path, *SHORT)
    first.until("starting")
    second = demo(tmp_path, *SHORT)
    assert 1 == second.ended()
    assert [f"demo: another demo uses {tmp_path / 'demo'}; wait for it, or choose --out"] == second.lines
    pids = first.descendants()
    first.process.send_signal(signal.SIGTERM)
    assert 130 == first.ended(), first.text
    assert [] == [pid for pid in pids if alive(pid)]
