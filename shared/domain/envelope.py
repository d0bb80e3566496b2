"""The envelope: how a message meant for the primary waits in a backlog queue of the secondary.

Session id, time to live and scheduled time would act on the backlog queue itself, so they move into application
properties of the names that the original client used; the destination's path goes with them. The syphon restores them
and removes what was added. Everything else stays where it is.

Three additions of ours. `x-pair-types` notes AMQP types that the SDK's receiver would lose (see typing_notes) and the
dates that a sender wrote beside a time to live; it is only there when something has to be noted. `x-pair-trace` says
which trace the send belongs to (a W3C traceparent), and is only there where traces are collected; a message's own
properties of that kind are its own business.

Time spent before the detour has already been taken off `x-ms-timetolive`; the time spent waiting is known from the
backlog queue's own enqueued time, which messages of the original client have as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from shared.domain.message import (
    SCHEDULED_ENQUEUE_TIME,
    AmqpValue,
    Body,
    Described,
    Header,
    Message,
    Properties,
    SequenceBody,
    Typed,
    ValueBody,
)
from shared.domain.pair import EntityPath, entity_path
from shared.domain.plain_values import decoded, plain
from shared.domain.typing_notes import (
    TICKS_PER_MICROSECOND,
    TIMESPAN,
    Note,
    apply_note,
    guess,
    note_of,
    notes_of,
    readable,
    ticks,
)
from shared.errors import EnvelopeError, Rejected

DESTINATION = "x-ms-path"
SESSION_ID = "x-ms-sessionid"
TIME_TO_LIVE = "x-ms-timetolive"
SCHEDULED_TIME = "x-ms-scheduledenqueuetimeutc"
TYPES = "x-pair-types"
TRACE = "x-pair-trace"
TRANSFER_PROPERTIES = frozenset({DESTINATION, SESSION_ID, TIME_TO_LIVE, SCHEDULED_TIME, TYPES, TRACE})

TTL_EXPIRED = "TTLExpiredException"
# AMQP messaging 3.2.1: a header's ttl is a uint of milliseconds; the service takes its maximum as "for ever".
TTL_FOREVER_MS = 2**32 - 1
_LEAST_TTL = timedelta(milliseconds=1)
# TimeSpan.MaxValue, which the original client wrote for "for ever": no wait makes it fit a header.
_FOREVER = timedelta(microseconds=(2**63 - 1) // TICKS_PER_MICROSECOND)
# What the service and the SDK add to a message on its way to a receiver; none of it belongs to the sender's message.
_OF_THE_SERVICE = frozenset(
    {
        "x-opt-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-enqueue-sequence-number",
        "x-opt-message-state",
        "x-opt-deadletter-source",
        "x-opt-lock-token",
    }
)
_NOTHING: Mapping[str, Any] = {}

S = TypeVar("S", Header, Properties)


@dataclass(frozen=True, kw_only=True)
class Unwrapped:
    """A backlog message as it is to be sent on, and where to."""

    destination: EntityPath
    message: Message
    expired: bool = False
    #: The trace its send belongs to, where its sender said so.
    trace: str | None = None


def refuse_transfer_properties(names: Collection[str]) -> None:
    """A sender's own property of such a name would be overwritten on a detour, so it is refused on every way."""
    for name in TRANSFER_PROPERTIES if names else ():
        if name in names:
            raise Rejected(f"The application property {name} belongs to the pair; give yours another name.")


def transfer_properties(destination: EntityPath, trace: str | None = None) -> dict[str, AmqpValue]:
    """What every message carries while it waits; all that one without a session or time to live has to carry."""
    return {DESTINATION: str(destination)} if trace is None else {DESTINATION: str(destination), TRACE: trace}


def wrap(
    message: Message, destination: EntityPath, *, spent: timedelta = timedelta(0), trace: str | None = None
) -> Message:
    """The message as it waits in a backlog queue; `spent` is how long ago its sender handed it over."""
    refuse_transfer_properties(message.application_properties)
    transfer = transfer_properties(destination, trace)
    annotations = dict(message.annotations)
    scheduled = annotations.pop(SCHEDULED_ENQUEUE_TIME, None)
    if message.properties.group_id is not None:
        transfer[SESSION_ID] = message.properties.group_id
    if (ttl := _time_to_live(message)) is not None:
        transfer[TIME_TO_LIVE] = Described(TIMESPAN, Typed("long", ticks(max(ttl - spent, _LEAST_TTL))))
    if scheduled is not None:
        transfer[SCHEDULED_TIME] = scheduled if isinstance(scheduled, datetime) else Typed("timestamp", _ms(scheduled))
    notes = _notes(message, annotations)
    if ttl is not None and (dates := _dates(message)) != [None, None]:
        notes["t"] = dates
    if notes:
        transfer[TYPES] = json.dumps(notes, separators=(",", ":"))
        message = _readable(message)
        annotations = readable(annotations)
    header, properties = message.header, message.properties
    if ttl is not None:
        header = replace(header, time_to_live_ms=None)
        properties = replace(properties, absolute_expiry_time_ms=None, creation_time_ms=None)
    if properties.group_id is not None:
        properties = replace(properties, group_id=None)
    return Message(
        body=message.body,
        header=header,
        properties=properties,
        application_properties={**message.application_properties, **transfer},
        annotations=annotations,
        delivery_annotations=message.delivery_annotations,
        footer=message.footer,
    )


def _readable(message: Message) -> Message:
    """What is noted may be in a form that the syphon's SDK can receive."""
    body = message.body
    match body:
        case ValueBody(value=value):
            body = ValueBody(readable(value))
        case SequenceBody(sections=sections):
            body = SequenceBody(tuple(readable(list(section)) for section in sections))
    return replace(
        message,
        body=body,
        application_properties=readable(dict(message.application_properties)),
        delivery_annotations=readable(dict(message.delivery_annotations)),
        footer=readable(dict(message.footer)),
    )


def _time_to_live(message: Message) -> timedelta | None:
    ttl_ms, properties = message.header.time_to_live_ms, message.properties
    if ttl_ms is None or ttl_ms == 0:
        return None
    if ttl_ms < TTL_FOREVER_MS:
        return timedelta(milliseconds=ttl_ms)
    created, expires = properties.creation_time_ms, properties.absolute_expiry_time_ms
    return _FOREVER if created is None or expires is None else timedelta(milliseconds=expires - created)


def _dates(message: Message) -> list[int | None]:
    """They would act on the backlog queue as well, and they alone tell of a life longer than a header can say."""
    return [message.properties.creation_time_ms, message.properties.absolute_expiry_time_ms]


def _ms(value: AmqpValue) -> int:
    return int(value.value if isinstance(value, Typed) else value)


def _notes(message: Message, annotations: dict[str, AmqpValue]) -> dict[str, Note]:
    ids = {"m": message.properties.message_id, "c": message.properties.correlation_id}
    sections = {
        "p": message.application_properties,
        "a": annotations,
        "d": message.delivery_annotations,
        "f": message.footer,
        "i": ids,
    }
    notes: dict[str, Note] = {}
    for name, section in sections.items():
        if section and (noted := notes_of(section)):
            notes[name] = noted
    if (body := _body_note(message.body)) is not None:
        notes["b"] = body
    if message.delivery_annotations:
        notes["v"] = [[name, plain(value)] for name, value in message.delivery_annotations.items()]
    return notes


def _body_note(body: Body) -> Note:
    match body:
        case ValueBody(value=value):
            return note_of(value)
        case SequenceBody(sections=sections):
            return note_of(list(sections))
        case _:
            return None


def unwrap(received: Message, *, waited: timedelta = timedelta(0)) -> Unwrapped:
    """What a backlog message was before: `received` is as decoded by a receiver, types guessed by nobody yet.

    `waited` is the time since it was enqueued in the backlog queue; zero restarts the clock, as the original did.
    """
    properties = {_text(name): value for name, value in received.application_properties.items()}
    destination = _destination(properties.get(DESTINATION))
    notes = _read_notes(properties.get(TYPES))
    session_id, ttl, scheduled = _session_id(properties), _restored_ttl(properties), _scheduled_time(properties)
    trace = _trace(properties)
    for name in TRANSFER_PROPERTIES:
        properties.pop(name, None)
    restored: dict[str, AmqpValue] = {} if session_id is None else {"group_id": session_id}
    if ttl is not None and "t" in notes:
        restored["creation_time_ms"], restored["absolute_expiry_time_ms"] = _read_dates(notes["t"])
    left = None if ttl is None else ttl - waited
    # Rounded up: a message that nothing has held up keeps the time to live it was given.
    ttl_ms = None if left is None else min(max(-(-left // timedelta(milliseconds=1)), 1), TTL_FOREVER_MS)
    header = _changed(received.header, time_to_live_ms=ttl_ms, delivery_count=None)
    message = _with_types(received, notes, header=header, restored=restored, own=properties)
    if scheduled is not None:
        annotations = {**message.annotations, SCHEDULED_ENQUEUE_TIME: Typed("timestamp", scheduled)}
        message = replace(message, annotations=annotations)
    return Unwrapped(
        destination=destination,
        message=message,
        expired=left is not None and left <= timedelta(0),
        trace=trace,
    )


def destination_of(received: Message) -> EntityPath:
    """Where a backlog message is meant to go, without unwrapping it."""
    properties = received.application_properties
    value = properties.get(DESTINATION.encode())
    return _destination(properties.get(DESTINATION) if value is None else value)


def rewrapped(received: Message, *, waited: timedelta = timedelta(0)) -> Message:
    """A backlog message as it was sent to the backlog, to be enqueued once more: the time it waited is taken off.

    It may be one whose envelope makes no sense; what cannot be understood is kept as it looks.
    """
    properties = {_text(name): value for name, value in received.application_properties.items()}
    try:
        notes = _read_notes(properties.get(TYPES))
        message = _with_types(received, notes)
    except EnvelopeError:
        message = _with_types(received, {})
    transfer = dict(message.application_properties)
    try:
        if (ttl := _restored_ttl(properties)) is not None:
            transfer[TIME_TO_LIVE] = Described(TIMESPAN, Typed("long", ticks(max(ttl - waited, timedelta(0)))))
        if (scheduled := _scheduled_time(properties)) is not None:
            transfer[SCHEDULED_TIME] = Typed("timestamp", scheduled)
    except EnvelopeError:
        pass  # of another type than they should be: they stay what they are
    return replace(message, application_properties=transfer)


def without_traces_of_the_service(received: Message) -> Message:
    """A received message as something to send: types guessed, what the service had added removed."""
    return _with_types(received, {})


def _destination(value: AmqpValue) -> EntityPath:
    if value is None:
        raise EnvelopeError(f"The backlog message has no {DESTINATION}: nobody knows where it was meant to go.")
    try:
        return entity_path(_text(value))
    except (Rejected, AttributeError, UnicodeDecodeError):
        raise EnvelopeError(f"The backlog message's {DESTINATION} is not the path of a queue or topic.") from None


def _session_id(properties: dict[str, AmqpValue]) -> str | None:
    value = properties.get(SESSION_ID)
    if value is None:
        return None
    try:
        return _text(value)
    except (AttributeError, UnicodeDecodeError):
        raise EnvelopeError(f"The backlog message's {SESSION_ID} is not text.") from None


def _trace(properties: dict[str, AmqpValue]) -> str | None:
    """Nothing is worth holding up a message for a trace that makes no sense."""
    value = properties.get(TRACE)
    try:
        return None if value is None else _text(value)
    except (AttributeError, UnicodeDecodeError):
        return None


def _restored_ttl(properties: dict[str, AmqpValue]) -> timedelta | None:
    """Time spans arrive as their number of ticks, whoever wrote them: the SDK drops `com.microsoft:timespan`."""
    value = properties.get(TIME_TO_LIVE)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise EnvelopeError(f"The backlog message's {TIME_TO_LIVE} is not a time span.")
    return timedelta(microseconds=value // TICKS_PER_MICROSECOND)


def _scheduled_time(properties: dict[str, AmqpValue]) -> int | None:
    value = properties.get(SCHEDULED_TIME)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise EnvelopeError(f"The backlog message's {SCHEDULED_TIME} is not a timestamp.")
    return value


def _read_notes(value: AmqpValue) -> dict[str, Note]:
    if value is None:
        return {}
    try:
        notes = json.loads(_text(value))
    except (ValueError, AttributeError):
        notes = None
    if not isinstance(notes, dict):
        raise EnvelopeError(f"The backlog message's {TYPES} is not a note on AMQP types.")
    return notes


def _read_dates(note: Note) -> tuple[int | None, int | None]:
    match note:
        case [int() | None as created, int() | None as expires]:
            return created, expires
    raise EnvelopeError(f"The backlog message's {TYPES} does not note two dates.")


def _with_types(
    received: Message,
    notes: dict[str, Note],
    *,
    header: Header | None = None,
    restored: Mapping[str, AmqpValue] = _NOTHING,
    own: Mapping[Any, AmqpValue] | None = None,
) -> Message:
    """The message as something to send: typed again, without what the service added.

    `restored` is put back among its properties; `own` are its application properties, where not all are the sender's.
    """
    properties = received.properties
    try:
        ids = notes.get("i", _NOTHING)
        return Message(
            body=_typed_body(received.body, notes.get("b")),
            header=header or _changed(received.header, delivery_count=None),
            properties=_changed(
                properties,
                message_id=apply_note(ids.get("m"), properties.message_id),
                correlation_id=apply_note(ids.get("c"), properties.correlation_id),
                **restored,
            ),
            application_properties=_section(received.application_properties if own is None else own, notes.get("p")),
            annotations=_section(received.annotations, notes.get("a")),
            delivery_annotations=_section(_delivery_annotations(received, notes.get("v")), notes.get("d")),
            footer=_section(received.footer, notes.get("f")),
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise EnvelopeError(f"The backlog message's {TYPES} does not fit its content: {error}") from None


def _changed(section: S, **changes: AmqpValue) -> S:
    """The same one where nothing changes: most often, and copies cost more than all the rest of unwrapping."""
    if all(getattr(section, name) is value for name, value in changes.items()):
        return section
    return replace(section, **changes)


def _delivery_annotations(received: Message, noted: list[tuple[Any, Note]] | None) -> Mapping[Any, AmqpValue]:
    """As delivered, or, of a message that was only looked at and so has none, as noted."""
    if noted is None:
        return received.delivery_annotations
    return {**{name: decoded(value) for name, value in noted}, **received.delivery_annotations}


def _section(section: Mapping[Any, AmqpValue], notes: dict[str, Note] | None) -> dict[Any, AmqpValue]:
    """Names of annotations may be numbers (AMQP messaging 3.2.10); all others are text."""
    typed: dict[Any, AmqpValue] = {}
    for name, value in section.items():
        name = name if isinstance(name, int) else _text(name)
        if name not in _OF_THE_SERVICE:
            typed[name] = guess(value) if notes is None else apply_note(notes.get(str(name)), value)
    return typed


def _typed_body(body: Body, note: Note) -> Body:
    match body:
        case ValueBody(value=value):
            return ValueBody(apply_note(note, value))
        case SequenceBody(sections=sections):
            return SequenceBody(tuple(apply_note(note, list(sections))))
        case _:
            return body


def _text(value: AmqpValue) -> str:
    return value if isinstance(value, str) else str(value.decode())
