"""The journal on disk: SQLite in WAL mode, written by one thread, many changes to a commit.

Acknowledgements wait for the commit that holds their change (`when_durable`). While a commit runs, further changes
gather for the next one, so that durability costs one fsync for many messages.

A commit takes whole turns of the event loop only, so a message that moves from one queue to another, or a message and
its entry in the duplicate history, are never torn apart by a crash. When writing fails, for whatever reason, the same
changes are tried again until it works; meanwhile nothing is acknowledged, and whatever would need the disk is refused.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .errors import INTERNAL_ERROR, SERVER_BUSY, BrokerError
from .journal_rows import (
    ALL_COLUMNS,
    COUNTER,
    ENTITY,
    FORGET,
    NO_ENTITY,
    NO_SESSION,
    PUT,
    QUEUE_TABLES,
    REMEMBER,
    REMOVE,
    SCHEMA,
    SESSION,
    Row,
    message_of,
    row_of,
)
from .store import PARTITION_SHIFT, StoredMessage

SCHEMA_VERSION = 1
#: Changes that may wait for the disk; beyond that the broker takes nothing more until some are written.
PENDING_MAX = 200_000
#: After a failed commit the disk is tried again this often.
RETRY_S = 0.5
#: How long another process may hold the file before that is an error.
BUSY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass
class Changes:
    """What one turn of the loop changed: first the statements in their order, then each message as it is in the end."""

    statements: list[tuple[str, Row]] = field(default_factory=list)
    #: By queue and sequence number; None = removed.
    messages: dict[tuple[str, int], Row | None] = field(default_factory=dict)
    #: Highest sequence number given, by queue and partition.
    counters: dict[tuple[str, int], int] = field(default_factory=dict)
    #: To be called once it is safe.
    callbacks: list[Callable[[], None]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.statements or self.messages or self.counters or self.callbacks)

    @property
    def size(self) -> int:
        return len(self.statements) + len(self.messages)

    def forget_queue(self, queue: str) -> None:
        """Changes of a queue that is gone; a queue of the same name may come after it."""
        self.messages = {key: row for key, row in self.messages.items() if key[0] != queue}
        self.counters = {key: last for key, last in self.counters.items() if key[0] != queue}
        self.statements += [(f"DELETE FROM {table} WHERE queue = ?", (queue,)) for table in QUEUE_TABLES]

    def write(self, database: sqlite3.Connection) -> None:
        for statement, values in self.statements:
            database.execute(statement, values)
        database.executemany(REMOVE, [key for key, row in self.messages.items() if row is None])
        database.executemany(PUT, [row for row in self.messages.values() if row is not None])
        database.executemany(COUNTER, [(*key, last) for key, last in self.counters.items()])


class SqliteJournal:
    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._database = self._open(file)
        #: What this turn of the loop has told so far.
        self._current = Changes()
        self._seal_is_due = False
        #: Whole turns, in order, for the writer; one change set is being written at a time.
        self._sealed: list[Changes] = []
        self._unsafe = 0
        self._unsafe_size = 0
        self._wake = threading.Condition()
        self._is_closing = False
        self._failure: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @staticmethod
    def _open(file: Path) -> sqlite3.Connection:
        database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=BUSY_S)
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version not in (0, SCHEMA_VERSION):
                raise BrokerError(INTERNAL_ERROR, f"{file} was written by another version ({version}) of the broker.")
            database.executescript(SCHEMA)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except sqlite3.Error as error:
            database.close()
            raise BrokerError(INTERNAL_ERROR, f"{file} cannot be used: {error}.") from error
        except BaseException:
            database.close()
            raise
        return database

    # -- reading at start

    def entities(self) -> list[tuple[str, str, str]]:
        """Path, kind and description; topics come before their subscriptions."""
        rows = self._database.execute("SELECT path, kind, description FROM entities ORDER BY length(path), path")
        return list(rows)

    def messages(self) -> Iterator[tuple[str, StoredMessage]]:
        rows = self._database.execute(f"SELECT {', '.join(ALL_COLUMNS)} FROM messages ORDER BY queue, sequence_number")
        for row in rows:
            yield row[0], message_of(row)

    def sessions(self) -> list[tuple[str, str, bytes, float]]:
        return list(self._database.execute("SELECT queue, id, state, updated_at FROM sessions"))

    def history(self) -> list[tuple[str, int, str, float]]:
        return list(self._database.execute("SELECT queue, partition, message_id, at FROM history ORDER BY at"))

    def counters(self) -> list[tuple[str, int, int]]:
        return list(self._database.execute("SELECT queue, partition, last FROM counters"))

    # -- life

    def start(self) -> None:
        """Begin writing; from here on the database belongs to the writer's thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write_loop, name=f"journal {self._file.name}", daemon=True)
        self._thread.start()
        self._seal()

    async def close(self) -> None:
        """After everything told so far is safe, or cannot be."""
        self._seal()
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._database.close()

    # -- the port

    def check(self) -> None:
        if self._failure is not None:
            raise BrokerError(INTERNAL_ERROR, f"The journal {self._file.name} cannot be written: {self._failure}.")
        if self._unsafe_size + self._current.size >= PENDING_MAX:
            raise BrokerError(SERVER_BUSY, f"{PENDING_MAX} changes wait for the disk.")

    def put(self, queue: str, message: StoredMessage) -> None:
        number = message.sequence_number
        self._changes().messages[queue, number] = row_of(queue, message)
        counters, key = self._current.counters, (queue, number >> PARTITION_SHIFT)
        if counters.get(key, -1) < number:
            counters[key] = number

    def remove(self, queue: str, sequence_number: int) -> None:
        self._changes().messages[queue, sequence_number] = None

    def set_session_state(self, queue: str, session_id: str, state: bytes | None, updated_at: float) -> None:
        if state is None:
            self._add(NO_SESSION, (queue, session_id))
        else:
            self._add(SESSION, (queue, session_id, state, updated_at))

    def remember_id(self, queue: str, partition: int, message_id: str, at: float) -> None:
        self._add(REMEMBER, (queue, partition, message_id, at))

    def forget_ids(self, queue: str, before: float) -> None:
        self._add(FORGET, (queue, before))

    def set_entity(self, path: str, kind: str, description: str) -> None:
        self._add(ENTITY, (path, kind, description))

    def remove_entity(self, path: str, queues: tuple[str, ...]) -> None:
        self._add(NO_ENTITY, (path,))
        for queue in queues:
            self._current.forget_queue(queue)

    def when_durable(self, callback: Callable[[], None]) -> None:
        if self._current.is_empty and not self._unsafe:
            callback()
        else:
            self._changes().callbacks.append(callback)

    # -- gathering, on the loop's thread

    def _add(self, statement: str, values: Row) -> None:
        self._changes().statements.append((statement, values))

    def _changes(self) -> Changes:
        if not self._seal_is_due and self._loop is not None:
            self._seal_is_due = True
            self._loop.call_soon(self._seal)
        return self._current

    def _seal(self) -> None:
        """This turn is over: what it told is given to the writer as one piece."""
        self._seal_is_due = False
        if self._current.is_empty:
            return
        sealed, self._current = self._current, Changes()
        self._unsafe += 1
        self._unsafe_size += sealed.size
        with self._wake:
            self._sealed.append(sealed)
            self._wake.notify()

    def _safe(self, written: list[Changes]) -> None:
        self._failure = None
        self._unsafe -= len(written)
        self._unsafe_size -= sum(changes.size for changes in written)
        for changes in written:
            for callback in changes.callbacks:
                try:
                    callback()
                except Exception:
                    # The others wait for their own answers.
                    _log.exception("What waited for the journal %s failed.", self._file)

    # -- the writer's thread

    def _write_loop(self) -> None:
        while True:
            with self._wake:
                while not (self._sealed or self._is_closing):
                    self._wake.wait()
                if not self._sealed:
                    return
                batch, self._sealed = self._sealed, []
            if not self._write(batch):
                return

    def _write(self, batch: list[Changes]) -> bool:
        """Write until it is safe; False when the broker closes before the disk takes it."""
        while True:
            try:
                self._commit(batch)
            except Exception as error:
                # Mostly the disk. But whatever it is: a writer that ended would leave everybody waiting in silence.
                if not self._fail(error):
                    return False
                continue
            self._tell(lambda: self._safe(batch))
            return True

    def _commit(self, batch: list[Changes]) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            for changes in batch:
                changes.write(database)
            database.execute("COMMIT")
        except BaseException:
            # A full disk ends the transaction by itself.
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def _fail(self, error: Exception) -> bool:
        reason = f"{type(error).__name__}: {error}"
        if self._failure != reason:
            trace = None if isinstance(error, sqlite3.Error) else error
            _log.error("The journal %s cannot be written: %s; trying again.", self._file, reason, exc_info=trace)
        # Read by the loop's thread, which refuses all changes from here on.
        self._failure = reason
        with self._wake:
            if not self._is_closing:
                self._wake.wait(RETRY_S)
            if self._is_closing:
                _log.error("The journal %s is closed with changes that could not be written.", self._file)
            return not self._is_closing

    def _tell(self, action: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        try:
            loop.call_soon_threadsafe(action)
        except RuntimeError:
            if not loop.is_closed():
                raise
