"""The journal on disk: what it was told survives, in whole turns, and nothing is called safe before it is."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from local.broker import sqlite_journal
from local.broker.clock import ManualClock
from local.broker.descriptions import (
    AuthorizationRule,
    CorrelationFilter,
    EntityStatus,
    QueueDescription,
    RuleDescription,
    SqlFilter,
    SqlRuleAction,
    TopicDescription,
)
from local.broker.errors import BrokerError
from local.broker.journal_rows import CONTENT_COLUMNS, MESSAGE_COLUMNS
from local.broker.namespace import Namespace
from local.broker.restore import restore
from local.broker.sqlite_journal import Changes, SqliteJournal
from local.broker.store import StoredMessage
from tests.support.broker import accept, application_of, body_of, message, namespace, receive, subscribe, take

DEADLINE_S = 10.0


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.001)


async def safe_on_disk(journal: SqliteJournal) -> None:
    done = asyncio.Event()
    journal.when_durable(done.set)
    await asyncio.wait_for(done.wait(), DEADLINE_S)


@asynccontextmanager
async def life(
    file: Path, clock: ManualClock, journal_class: type[SqliteJournal] = SqliteJournal
) -> AsyncIterator[tuple[Namespace, SqliteJournal]]:
    """A namespace on a file, as a broker starts and stops it."""
    journal = journal_class(file)
    space = namespace(clock)
    restore(space, journal)
    journal.start()
    try:
        yield space, journal
    finally:
        await journal.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "test.sqlite"


def shown(stored: StoredMessage) -> dict[str, object]:
    content = stored.content
    facts = {name: getattr(stored, name) for name in MESSAGE_COLUMNS}
    return {
        **facts,
        "number": stored.sequence_number,
        **{n: getattr(content, n) for n in CONTENT_COLUMNS},
    }


def everything(space: Namespace) -> dict[str, list[dict[str, object]]]:
    return {queue.key: [shown(m) for m in queue.messages()] for queue in space.message_queues()}


async def test_messages_of_every_state_come_back_as_they_were(file: Path, clock: ManualClock) -> None:
    async with life(file, clock) as (space, _):
        queue = space.create_queue("orders", QueueDescription())
        for index in range(6):
            queue.send(message(b"%d" % index, ttl_s=1000 + index, message_id=f"id {index}", application={"n": index}))
        queue.send(message(b"scheduled", scheduled_at=clock.now() + 50, annotations={"own": 1}, ttl_s=7))
        queue.main.complete(take(queue.main))
        queue.main.abandon(take(queue.main), {"seen": True})
        queue.main.defer(receive(queue.main, 2)[1].lock_token or b"")
        queue.main.dead_letter(take(queue.main), "Reason", "text")
        before = everything(space)
        assert 1 == queue.main.lock_count
    async with life(file, clock) as (space, _):
        assert before == everything(space)
        queue = space.queue("orders")
        assert [(b"1", 1), (b"4", 0), (b"5", 0)] == [(body_of(m), m.delivery_count) for m in receive(queue.main, 9)]
        assert {"n": 1, "seen": True} == application_of(next(iter(queue.main.messages())))
        assert [3] == [m.sequence_number for m in queue.main.receive_deferred([3], deletes=False)]
        clock.advance(50)
        (late,) = receive(queue.main, 9)
        assert (b"scheduled", 8) == (body_of(late), late.sequence_number)
        assert clock.now() + 7 == late.expires_at


async def test_sequence_numbers_never_go_back_even_when_all_messages_are_gone(file: Path, clock: ManualClock) -> None:
    async with life(file, clock) as (space, _):
        queue = space.create_queue("orders", QueueDescription())
        for _ in range(5):
            queue.send(message())
        receive(queue.main, 5, deletes=True)
    async with life(file, clock) as (space, _):
        assert 6 == space.queue("orders").send(message())


async def test_sessions_come_back_free_with_their_state(file: Path, clock: ManualClock) -> None:
    async with life(file, clock) as (space, _):
        queue = space.create_queue("orders", QueueDescription(requires_session=True)).main
        queue.put(message(b"1", session_id="a"))
        accept(queue, "a", credit=1)
        queue.set_session_state("a", b"page 3")
        for session_id, state in (("b", b"x"), ("b", None), ("c", b"alone")):
            if queue.book.sessions.get(session_id) is None:
                accept(queue, session_id)
            queue.set_session_state(session_id, state)
        changed_at = clock.now()
        clock.advance(1)
    async with life(file, clock) as (space, _):
        queue = space.queue("orders").main
        assert ["a", "c"] == queue.book.listing(None)
        assert (["a", "c"], []) == (queue.book.listing(changed_at - 1), queue.book.listing(changed_at))
        holder = accept(queue, credit=1)
        assert holder.session is not None
        assert ("a", b"page 3", 0) == (holder.session.id, queue.session_state("a"), holder.got[0].delivery_count)


async def test_duplicates_are_still_known_after_a_restart(file: Path, clock: ManualClock) -> None:
    description = QueueDescription(
        requires_duplicate_detection=True, duplicate_detection_history_time_window=timedelta(seconds=60)
    )
    async with life(file, clock) as (space, _):
        queue = space.create_queue("orders", description)
        for message_id in "123":
            queue.send(message(message_id=message_id))
            clock.advance(20)
        receive(queue.main, 9, deletes=True)
    async with life(file, clock) as (space, _):
        queue = space.queue("orders")
        assert [4, 0, 0] == [queue.send(message(message_id=message_id)) for message_id in "123"]


async def test_entities_and_rules_come_back_with_their_ages(file: Path, clock: ManualClock) -> None:
    rule = AuthorizationRule(key_name="listener", primary_key="k1", secondary_key="k2", rights=("Listen",))
    queue_description = QueueDescription(
        status=EntityStatus.SEND_DISABLED, authorization_rules=(rule,), user_metadata="x", forward_to="events"
    )
    async with life(file, clock) as (space, _):
        space.create_topic("events", TopicDescription(user_metadata="täglich"))
        space.create_queue("a/b", QueueDescription())
        clock.advance(10)
        space.update_queue("a/b", queue_description)
        subscribe(
            space, "events", "Sub", rule=SqlFilter(expression="n > @p", parameters=(("@p", 5),)), max_delivery_count=7
        )
        clock.advance(10)
        action = SqlRuleAction(expression="SET x = 1")
        correlation = CorrelationFilter(label="l", properties=(("a", 1), ("b", "two"), ("c", True), ("d", 1.5)))
        space.create_rule("events", "sub", RuleDescription(name="Second", filter=correlation, action=action))
        space.create_queue("gone", QueueDescription()).send(message())
        space.delete_queue("gone")
        ages = [(e.path, e.created_at, e.updated_at) for e in space.all_entities()]
        rules = [(r.description, r.created_at) for r in space.rules("events", "Sub")]
    clock.advance(1000)
    for _ in range(2):
        async with life(file, clock) as (space, _):
            assert queue_description == space.queue("a/b").description
            assert sorted(ages) == sorted((e.path, e.created_at, e.updated_at) for e in space.all_entities())
            assert rules == [(r.description, r.created_at) for r in space.rules("events", "sub")]
            assert [7] == [s.description.max_delivery_count for s in space.subscriptions("events")]
    async with life(file, clock) as (space, _):
        space.topic("events").send(message(b"yes", application={"n": 6}))
        assert [b"yes"] == [body_of(m) for m in receive(space.subscription("events", "sub").main, 5)]


async def test_a_queue_made_anew_has_nothing_of_the_old_one(file: Path, clock: ManualClock) -> None:
    async with life(file, clock) as (space, _):
        for _ in range(3):
            queue = space.create_queue("orders", QueueDescription(requires_duplicate_detection=True))
            queue.send(message(b"old", message_id="7"))
            queue.main.dead_letter(take(queue.main), None, None)
            space.delete_queue("orders")
        space.create_queue("orders", QueueDescription()).send(message(b"new"))
    async with life(file, clock) as (space, _):
        queue = space.queue("orders")
        assert [(b"new", 1)] == [(body_of(m), m.sequence_number) for m in queue.main.messages()]
        assert (0, {}) == (queue.dead_letters.message_count, dict(queue.main.partitions[0].history))


async def test_forwards_that_a_crash_cut_off_are_made_good(file: Path, clock: ManualClock) -> None:
    async with life(file, clock) as (space, _):
        source = space.create_queue("source", QueueDescription())
        space.create_queue("target", QueueDescription())
        source.send(message(b"waits"))
    database = sqlite3.connect(file)
    with database:
        text = database.execute("SELECT description FROM entities WHERE path = 'source'").fetchone()[0]
        changed = text.replace('"forward_to": null', '"forward_to": "target"')
        database.execute("UPDATE entities SET description = ? WHERE path = 'source'", (changed,))
    database.close()
    for _ in range(2):
        async with life(file, clock) as (space, _):
            assert 0 == space.queue("source").main.message_count
            assert [b"waits"] == [body_of(m) for m in space.queue("target").main.messages()]


class GatedJournal(SqliteJournal):
    """Commits only when let, and writes down what each commit held."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.gate = threading.Event()
        self.waits_at_the_gate = threading.Event()
        self.commits: list[list[Changes]] = []
        self.failures: list[Exception] = []
        self.refused = 0

    def _commit(self, batch: list[Changes]) -> None:
        if self.failures:
            self.refused += 1
            raise self.failures[0]
        self.waits_at_the_gate.set()
        assert self.gate.wait(DEADLINE_S)
        self.commits.append(batch)
        super()._commit(batch)


@asynccontextmanager
async def gated(file: Path, clock: ManualClock) -> AsyncIterator[tuple[Namespace, GatedJournal]]:
    async with life(file, clock, GatedJournal) as (space, journal):
        assert isinstance(journal, GatedJournal)
        try:
            yield space, journal
        finally:
            journal.gate.set()


async def test_nothing_is_safe_before_its_commit(file: Path, clock: ManualClock) -> None:
    async with gated(file, clock) as (space, journal):
        queue = space.create_queue("orders", QueueDescription())
        safe: list[int] = []
        for index in range(3):
            queue.send(message())
            journal.when_durable(lambda index=index: safe.append(index))  # type: ignore[misc]
            await asyncio.sleep(0)
        # It may hold the first turn only: whichever it holds, none is safe while it may not commit.
        await until(journal.waits_at_the_gate.is_set)
        assert [] == safe, "the writer has some and may not commit"
        journal.gate.set()
        await until(lambda: len(safe) == 3)
        assert [0, 1, 2] == safe
        journal.when_durable(lambda: safe.append(3))
        assert [0, 1, 2, 3] == safe, "with nothing to wait for, there is no wait"


async def test_what_waits_behind_a_commit_goes_into_the_next_one_together(file: Path, clock: ManualClock) -> None:
    async with gated(file, clock) as (space, journal):
        queue = space.create_queue("orders", QueueDescription())
        await until(journal.waits_at_the_gate.is_set)
        safe: list[int] = []
        for _ in range(50):
            queue.send(message())
            journal.when_durable(lambda: safe.append(1))
            await asyncio.sleep(0)
        journal.gate.set()
        await until(lambda: len(safe) == 50)
        assert len(journal.commits) <= 3


async def test_a_turn_is_never_cut_in_two(file: Path, clock: ManualClock) -> None:
    """A message and its id in the history; a dead letter and the message it was: both or neither."""
    async with life(file, clock, GatedJournal) as (space, journal):
        assert isinstance(journal, GatedJournal)
        journal.gate.set()
        queue = space.create_queue("orders", QueueDescription(requires_duplicate_detection=True))
        await safe_on_disk(journal)
        count = len(journal.commits)
        queue.main.journal.remember_id("orders", 0, "between", clock.now())
        time.sleep(0.02)  # noqa: ASYNC251 - the turn goes on while the writer is free to write
        queue.send(message(message_id="7"))
        await safe_on_disk(journal)
        queue.main.dead_letter(take(queue.main), None, None)
        await safe_on_disk(journal)
        first, second = (batch for batch in journal.commits[count:])
        assert [(2, [("orders", 1)])] == [(len(c.statements), list(c.messages)) for c in first]
        assert [{("orders", 1), ("orders/$DeadLetterQueue", 1)}] == [set(c.messages) for c in second]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (sqlite3.OperationalError("database or disk is full"), "disk is full"),
        (MemoryError("no more memory"), "MemoryError: no more memory"),
        (OverflowError("a number too large for the file"), "OverflowError"),
    ],
    ids=["disk", "memory", "mistake"],
)
async def test_a_journal_that_fails_refuses_and_acknowledges_nothing_until_it_works_again(
    file: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
    said: str,
) -> None:
    monkeypatch.setattr(sqlite_journal, "RETRY_S", 0.01)
    async with gated(file, clock) as (space, journal):
        journal.gate.set()
        queue = space.create_queue("orders", QueueDescription())
        await safe_on_disk(journal)
        journal.failures.append(failure)
        safe: list[int] = []
        queue.send(message(b"kept"))
        journal.when_durable(lambda: safe.append(1))
        await until(lambda: journal._failure is not None)
        with pytest.raises(BrokerError, match=said):
            journal.check()
        journal.when_durable(lambda: safe.append(2))
        await until(lambda: journal.refused > 3)
        assert [] == safe
        journal.failures.clear()
        await until(lambda: safe == [1, 2])
        journal.check()
    assert 1 == caplog.text.count("trying again"), "one line for one failure, however often it is tried"
    async with life(file, clock) as (space, _):
        assert [b"kept"] == [body_of(m) for m in space.queue("orders").main.messages()]


async def test_one_answer_that_fails_does_not_keep_the_others_waiting(
    file: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async with life(file, clock) as (space, journal):
        space.create_queue("orders", QueueDescription()).send(message())
        journal.when_durable(fail)
        await safe_on_disk(journal)
    assert "ZeroDivisionError" in caplog.text


async def test_a_disk_that_is_really_full_is_such_a_failure(
    file: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_journal, "RETRY_S", 0.01)
    async with life(file, clock) as (space, journal):
        queue = space.create_queue("orders", QueueDescription())
        await safe_on_disk(journal)
        (pages,) = journal._database.execute("PRAGMA page_count").fetchone()
        journal._database.execute(f"PRAGMA max_page_count = {pages + 2}")
        safe: list[int] = []
        queue.send(message(b"x" * 100_000))
        journal.when_durable(lambda: safe.append(1))
        await until(lambda: journal._failure is not None)
        assert [] == safe
        journal._database.execute("PRAGMA max_page_count = 1000000")
        await until(lambda: safe == [1])


async def test_closing_does_not_wait_for_a_disk_that_stays_broken(
    file: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with gated(file, clock) as (space, journal):
        journal.failures.append(sqlite3.OperationalError("disk I/O error"))
        space.create_queue("orders", QueueDescription())
        await until(lambda: journal._failure is not None)
    assert "closed with changes that could not be written" in caplog.text


async def test_too_many_changes_for_the_disk_are_refused(
    file: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_journal, "PENDING_MAX", 10)
    async with gated(file, clock) as (space, journal):
        queue = space.create_queue("orders", QueueDescription())
        for _ in range(9):
            journal.check()
            queue.send(message())
            await asyncio.sleep(0)
        with pytest.raises(BrokerError, match="server-busy"):
            journal.check()
        journal.gate.set()
        await safe_on_disk(journal)
        journal.check()


async def test_a_file_in_use_is_refused(file: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_journal, "BUSY_S", 0.01)
    async with life(file, clock):
        with pytest.raises(BrokerError, match="locked"):
            SqliteJournal(file)


def test_a_file_of_another_version_is_refused(file: Path) -> None:
    file.parent.mkdir()
    database = sqlite3.connect(file)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(BrokerError, match="another version \\(99\\)"):
        SqliteJournal(file)


def test_a_file_that_is_no_database_is_refused(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("hello " * 1000)
    with pytest.raises(BrokerError, match="cannot be used"):
        SqliteJournal(file)
