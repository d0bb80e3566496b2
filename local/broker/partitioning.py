"""Which of an entity's partitions a message belongs to."""

from __future__ import annotations

import zlib

from .content import Content
from .errors import NOT_ALLOWED, BrokerError

PARTITION_COUNT = 16


def partition_of_key(key: str, partition_count: int) -> int:
    """The same key always lands in the same partition, also after a restart."""
    return zlib.crc32(key.encode()) % partition_count


def key_of(content: Content, detects_duplicates: bool) -> str | None:
    key = content.session_id if content.session_id is not None else content.partition_key
    return content.message_id if key is None and detects_duplicates else key


def choose_partition(content: Content, partition_count: int, detects_duplicates: bool) -> int | None:
    """Session id, else partition key, else the message id where duplicates are detected; None = any partition."""
    key = key_of(content, detects_duplicates)
    return None if key is None else partition_of_key(key, partition_count)


def check_keys_agree(content: Content) -> None:
    """Session id and partition key, where a message has both, must name the same partition."""
    session_id, partition_key = content.session_id, content.partition_key
    if session_id is not None and partition_key is not None and session_id != partition_key:
        raise BrokerError(
            NOT_ALLOWED,
            "InvalidOperation: the message's session id and partition key differ; a partitioned entity takes one key: "
            "make them equal, or leave the partition key out.",
        )
