"""The tables of the journal on disk, and a message as one of their rows."""

from __future__ import annotations

from typing import Any

from .content import Content
from .store import MessageState, StoredMessage

Row = tuple[Any, ...]

CONTENT_COLUMNS = (
    "bare",
    "header_fields",
    "annotations",
    "annotation_count",
    "delivery_annotations",
    "delivery_annotation_count",
    "message_id",
    "session_id",
    "partition_key",
    "time_to_live",
    "scheduled_at",
    "size",
)
MESSAGE_COLUMNS = (
    "enqueued_at",
    "expires_at",
    "state",
    "delivery_count",
    "enqueue_sequence_number",
    "dead_letter_source",
    "hops",
)
ALL_COLUMNS = ("queue", "sequence_number", *CONTENT_COLUMNS, *MESSAGE_COLUMNS)

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS entities (path TEXT PRIMARY KEY, kind TEXT NOT NULL, description TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
    {", ".join(ALL_COLUMNS)}, PRIMARY KEY (queue, sequence_number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    queue TEXT, id TEXT, state BLOB, updated_at REAL, PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (
    queue TEXT, partition INTEGER, message_id TEXT, at REAL, PRIMARY KEY (queue, partition, message_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (
    queue TEXT, partition INTEGER, last INTEGER, PRIMARY KEY (queue, partition)
) WITHOUT ROWID;
"""
QUEUE_TABLES = ("messages", "sessions", "history", "counters")
PUT = f"INSERT OR REPLACE INTO messages ({', '.join(ALL_COLUMNS)}) VALUES ({', '.join('?' * len(ALL_COLUMNS))})"
REMOVE = "DELETE FROM messages WHERE queue = ? AND sequence_number = ?"
SESSION = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)"
NO_SESSION = "DELETE FROM sessions WHERE queue = ? AND id = ?"
REMEMBER = "INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?)"
FORGET = "DELETE FROM history WHERE queue = ? AND at <= ?"
COUNTER = (
    "INSERT INTO counters VALUES (?, ?, ?) ON CONFLICT (queue, partition) DO UPDATE SET last = max(last, excluded.last)"
)
ENTITY = "INSERT OR REPLACE INTO entities VALUES (?, ?, ?)"
NO_ENTITY = "DELETE FROM entities WHERE path = ?"


def row_of(queue: str, message: StoredMessage) -> Row:
    content = message.content
    return (
        queue,
        message.sequence_number,
        *[getattr(content, name) for name in CONTENT_COLUMNS],
        *[getattr(message, name) for name in MESSAGE_COLUMNS],
    )


def message_of(columns: Row) -> StoredMessage:
    row: dict[str, Any] = dict(zip(ALL_COLUMNS, columns, strict=True))
    content = Content.__new__(Content)
    for name in CONTENT_COLUMNS:
        setattr(content, name, row[name])
    content.is_ping = False
    message = StoredMessage(row["sequence_number"], content, enqueued_at=row["enqueued_at"])
    for name in MESSAGE_COLUMNS:
        setattr(message, name, row[name])
    message.state = MessageState(row["state"])
    return message
