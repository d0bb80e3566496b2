"""Partitioned entities, as far as a sender can know them: by the keys that were refused.

Which key leads to which of the 16 partitions is the service's secret, so health is kept for single keys: a key whose
message failed in a way that may be its partition's fault is watched, and diverted, on its own, and comes back on its
own, after a ping with that very key. A watched key has a *key lane*: a path of its own, `{entity}#{key}`, which goes
through the same states as an entity (availability.py), with one difference: once its ping has succeeded it stays
diverted until nothing of it is left in the backlog, so that the order of its messages holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from shared.domain.failures import Failure
from shared.domain.message import PARTITION_KEY, Message
from shared.domain.pair import EntityPath

#: Between path and key; the service allows it in no path.
_MARK = "#"
#: Stands before the digest of a key that would be too long for a row of shared state.
_DIGEST = "~"
_SHORT_DIGEST_BYTES = 8
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
KEY_TEXT_MAX = 200

#: Keys of one entity that are watched at a time; with more, the entity as a whole is taken to be out.
WATCHED_KEYS_MAX = 1000
#: So many different keys failing, with no success of any other in between, may be more than one partition's fault, if
#: they were sent one by one; sent at once they may well share a partition. The entity is asked before it is blamed.
FAILED_KEYS_MAX = 8

#: The bits of a sequence number above these name the partition that gave it.
PARTITION_SHIFT = 48

#: What a sick partition looks like from outside. A lost connection, a disabled or missing entity concern all keys.
_OF_A_PARTITION = frozenset({Failure.TIMEOUT, Failure.SERVICE_ERROR, Failure.ENTITY_FULL})


def partition_of(sequence_number: int) -> int:
    return sequence_number >> PARTITION_SHIFT


class Traits(NamedTuple):
    """What is to be known about an entity besides its path; none of it can change while the entity exists."""

    partitioned: bool
    detects_duplicates: bool = False

    @property
    def message_id_is_key(self) -> bool:
        """Whether a message that has no other key goes where its message id leads."""
        return self.partitioned and self.detects_duplicates


class Keys(NamedTuple):
    """What of a message may decide its partition; which of it does is up to the entity."""

    #: Its session id, or else its partition key.
    named: str | None
    message_id: str | None


class KeyLane(NamedTuple):
    path: EntityPath
    #: None where only its digest is known.
    key: str | None


def may_be_a_partitions_fault(failure: Failure) -> bool:
    return failure in _OF_A_PARTITION


def key_lane(path: EntityPath, key: str) -> EntityPath:
    """Keys that differ in case only are different keys, while paths are not: capitals are written as bytes."""
    text = "".join(one if one in _PLAIN else "".join(f"={byte:02x}" for byte in one.encode()) for one in key)
    if len(text) > KEY_TEXT_MAX:
        text = _DIGEST + hashlib.sha256(key.encode()).hexdigest()
    return EntityPath(f"{path}{_MARK}{text}")


def is_key_lane(path: EntityPath) -> bool:
    return _MARK in path


def entity_of(path: EntityPath) -> EntityPath:
    """The entity itself, of a key lane or of its own path."""
    return EntityPath(path.partition(_MARK)[0])


def without_key(path: EntityPath) -> EntityPath:
    """The lane under a name that tells it from others and does not tell the key."""
    entity, _, text = path.partition(_MARK)
    digest = hashlib.blake2b(text.encode(), digest_size=_SHORT_DIGEST_BYTES).hexdigest()
    return EntityPath(f"{entity}{_MARK}{_DIGEST}{digest}")


def read_key_lane(path: EntityPath) -> KeyLane:
    entity, _, text = path.partition(_MARK)
    if text.startswith(_DIGEST):
        return KeyLane(EntityPath(entity), None)
    first, *rest = text.split("=")
    raw = first.encode() + b"".join(bytes.fromhex(one[:2]) + one[2:].encode() for one in rest)
    return KeyLane(EntityPath(entity), raw.decode())


def key_of(message: Message, waiting_session_id: object = None) -> str | None:
    """What decides the partition of a message; in the backlog its session id waits in the envelope."""
    return _text_of_first(message.properties.group_id, waiting_session_id, _partition_key_of(message))


def keys_of(message: Message, waiting_session_id: object = None) -> Keys:
    return Keys(key_of(message, waiting_session_id), _text_of_first(message.properties.message_id))


def _partition_key_of(message: Message) -> object:
    return message.annotations.get(PARTITION_KEY, message.annotations.get(PARTITION_KEY.encode()))


def _text_of_first(*values: object) -> str | None:
    """The first that is there, as text: a receiver may decode it as bytes, and message ids may be other things."""
    for value in values:
        if value is not None:
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return None


def queue_order(lane: EntityPath, queues: Sequence[EntityPath]) -> tuple[EntityPath, ...]:
    """The same for all instances: all that waits of a key waits in one queue, in order."""
    start = int.from_bytes(hashlib.sha256(lane.lower().encode()).digest()[:4], "big") % len(queues) if queues else 0
    return tuple(queues[start:]) + tuple(queues[:start])
