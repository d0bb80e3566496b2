"""What is shown: the same figures at a terminal and in plain lines."""

from __future__ import annotations

import io

from rich.console import Console

from local.demo.board import Board, Snapshot
from local.demo.ledger import Ledger
from local.demo.picture import LiveScreen, as_svg, draw
from local.demo.schedule import Phase, Schedule
from local.demo.traffic import ENTITIES, ORDERS
from local.demo.view import PlainView, view_for
from tests.support.demo import arrival, order, outcome, totals


def board() -> Board:
    """Ten seconds into an outage that began at four; traffic began at second 100 of the clock."""
    made = Board(Schedule(duration_s=30, outage_s=20), Ledger(), began_s=100.0)
    made.enter(Phase.OUTAGE, 104.0)
    return made


def busy(now_s: float = 110.0) -> tuple[Board, Snapshot]:
    made = board()
    for number, route in enumerate(("primary", "backlog", "backlog")):
        made.ledger.sending(order(number))
        made.ledger.answered(order(number), 201, 0.5, route)
    made.ledger.arrived(ORDERS, arrival(order(0)))
    made.note(105.5, "something happened")
    return made, made.snapshot(now_s)


def test_a_snapshot_adds_up() -> None:
    _, seen = busy()
    assert (3, 3, 1, 2, 0.5) == (seen.sent, seen.accepted, seen.delivered, seen.waiting, seen.longest_send_s)
    assert {Phase.HEALTHY: 1.0, Phase.OUTAGE: 0.3, Phase.DRAIN: 0.0, Phase.REPORT: 0.0} == seen.shares
    assert list(ENTITIES) == [row.path for row in seen.rows]
    assert ["something happened"] == [note.text for note in seen.notes]


def test_a_drain_is_not_called_done_before_it_is_over() -> None:
    made = board()
    made.enter(Phase.DRAIN, 124.0)
    assert 0.9 == made.snapshot(200.0).shares[Phase.DRAIN]
    made.enter(Phase.REPORT, 201.0)
    assert 1.0 == made.snapshot(201.0).shares[Phase.DRAIN]


def test_every_step_of_the_report_is_seen_and_none_is_the_last() -> None:
    made = board()
    made.enter(Phase.REPORT, 130.0)
    shares = []
    for _ in range(20):
        made.step()
        shares.append(made.snapshot(130.0).shares[Phase.REPORT])
    assert sorted(set(shares)) == shares
    assert 0.9 < shares[-1] < 1.0


def test_rates_are_those_of_the_last_seconds() -> None:
    made = board()
    made.snapshot(104.0)
    made.snapshot(108.0)
    for number in range(20):
        made.ledger.sending(order(number))
        made.ledger.answered(order(number), 201, 0.1, "primary")
    assert 10.0 == made.snapshot(110.0).accepted_per_s


def test_a_change_of_state_is_told_once_with_its_time() -> None:
    made = board()
    states = {"orders": "suspect", "invoices": "suspect", "events": "available", "unheard-of": "suspect"}
    assert ["orders, invoices: suspect, 1.5 s after the primary broke"] == made.hear(states, 105.5)
    assert [] == made.hear(states, 106.0)
    made.enter(Phase.DRAIN, 124.0)
    assert ["orders: available, 2.0 s after it was healed"] == made.hear({"orders": "available"}, 126.0)


def test_states_are_remembered_second_by_second() -> None:
    made = board()
    made.snapshot(102.0)
    made.hear({"orders": "unavailable"}, 102.5)
    assert ("available", "available", "unavailable") == made.snapshot(103.9).rows[0].history


def test_plain_lines_tell_every_note_and_now_and_then_how_it_goes() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    made, seen = busy()
    view.note(made.notes[0])
    view.show(seen)
    view.show(made.snapshot(111.0))
    view.verdict(outcome(totals(), None))
    lines = stream.getvalue().splitlines()
    assert "   5.5 s  something happened" == lines[0]
    assert lines[1].startswith("  10.0 s  [outage] sent 3, accepted 3 (0/s), delivered 1 (0/s), waiting 2, refusals 0")
    assert "" == lines[2], "the next progress line is due five seconds after the first"
    assert "  lost           0" in lines
    assert lines[-1].startswith("EXACT: ")


def test_nobody_at_a_terminal_gets_plain_lines() -> None:
    assert isinstance(view_for(io.StringIO(), "title"), PlainView)


def test_the_picture_has_phases_entities_and_figures() -> None:
    console = Console(file=io.StringIO(), width=110, record=True)
    console.print(draw(busy()[1], "a title"))
    said = console.export_text()
    for word in ("a title", *ENTITIES, "healthy", "report", "something happened", "longest send 0.50 s", "waiting 2"):
        assert word in said


def test_a_screen_shows_the_last_picture_and_the_verdict() -> None:
    stream = io.StringIO()
    screen = LiveScreen(Console(file=stream, width=110, force_terminal=True), "a title")
    screen.show(busy()[1])
    screen.close()
    screen.close()
    screen.verdict(outcome(totals(), None))
    assert "a title" in stream.getvalue()
    assert "EXACT" in stream.getvalue()


def test_a_saved_picture_loads_nothing_from_elsewhere() -> None:
    svg = as_svg(busy()[1], outcome(totals(), None), "a title")
    assert svg.startswith("<svg")
    assert ["http://www.w3.org/2000/svg"] == [part.split('"')[0] for part in svg.split('"') if part.startswith("http")]
