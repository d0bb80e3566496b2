"""What the service asks of a message's keys, checked before anything is sent.

Service Bus quotas: message id, session id, partition key and reply-to session id have at most 128 characters.
Partitioned entities: session id and partition key, if both are set, must be equal; the service checks it for all.
"""

from __future__ import annotations

from shared.errors import Rejected

KEY_LENGTH_MAX = 128


def check_keys(
    message_id: object, session_id: object, partition_key: object, *, reply_to_session_id: object = None
) -> None:
    """Raises Rejected with the one thing to change."""
    has_one_key = session_id is None and partition_key is None and reply_to_session_id is None
    if has_one_key and isinstance(message_id, str) and 0 < len(message_id) <= KEY_LENGTH_MAX:
        return  # what most messages are; sending them must cost next to nothing
    named = (
        ("MessageId", message_id),
        ("SessionId", session_id),
        ("PartitionKey", partition_key),
        ("ReplyToSessionId", reply_to_session_id),
    )
    for name, value in named:
        if value is None:
            continue
        if not isinstance(value, str):
            raise Rejected(f"{name} is text; this one is of type {type(value).__name__}.")
        if len(value) > KEY_LENGTH_MAX:
            raise Rejected(f"{name} has {len(value)} characters; at most {KEY_LENGTH_MAX} are allowed.")
    if message_id == "":
        raise Rejected("MessageId is empty; leave it out, or give it a value.")
    if session_id is not None and partition_key is not None and session_id != partition_key:
        raise Rejected("SessionId and PartitionKey are both set and differ; leave one of them out, or make them equal.")
