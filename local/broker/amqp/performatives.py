"""The described lists of AMQP 1.0: frame bodies, termini, delivery states, errors, SASL, transactions.

Each class is its own schema: fields in wire order; a field that has no default and may not be None is mandatory;
`@_described` names the descriptor and the wire type of every field. Lists are always written full length: the Python
Service Bus client reads by position, and hangs on an error that is not condition, description, non-empty info map.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple, TypeVar

from local.broker.amqp import fields as f
from local.broker.amqp.decoding import decode_at
from local.broker.amqp.encoding import encode, encode_list_body, encode_string, encode_symbol
from local.broker.amqp.errors import INVALID_FIELD, DecodeError, EncodeError
from local.broker.amqp.types import Described

_T = TypeVar("_T")

#: Role flag of attach and disposition: what the frame's sender is on that link (part 2, section 2.8.1).
SENDER, RECEIVER = False, True

UINT_MAX = 4_294_967_295


class _Schema(NamedTuple):
    cls: type
    descriptor: bytes
    names: tuple[str, ...]
    readers: tuple[f.Reader, ...]
    writers: tuple[f.Writer, ...]
    defaults: tuple[tuple[int, Any], ...]
    mandatory: tuple[int, ...]


_BY_CODE: dict[int, _Schema] = {}
_BY_CLASS: dict[type, _Schema] = {}
_CODES_BY_SYMBOL: dict[str, int] = {}


def _described(code: int, symbol: str, *types: f.FieldType) -> Callable[[type[_T]], type[_T]]:
    def register(cls: type[_T]) -> type[_T]:
        definitions = fields(cls)  # type: ignore[arg-type]
        if len(definitions) != len(types):
            raise TypeError(f"{cls.__name__} declares {len(definitions)} fields and {len(types)} types")
        schema = _Schema(
            cls=cls,
            descriptor=bytes((0, 0x53, code)),
            names=tuple(definition.name for definition in definitions),
            readers=tuple(field.read for field in types),
            writers=tuple(field.write for field in types),
            defaults=tuple(
                (index, definition.default)
                for index, definition in enumerate(definitions)
                if definition.default is not MISSING and definition.default is not None
            ),
            mandatory=tuple(
                index
                for index, definition in enumerate(definitions)
                if definition.default is MISSING and "None" not in str(definition.type)
            ),
        )
        _BY_CODE[code] = _BY_CLASS[cls] = schema
        _CODES_BY_SYMBOL[symbol] = code
        return cls

    return register


def _read_schema(buf: bytes, pos: int, schema: _Schema) -> tuple[Any, int]:
    values, pos = f.read_fields(buf, pos, schema.readers)
    for index in schema.mandatory:
        if values[index] is None:
            raise DecodeError(f"{schema.cls.__name__.lower()} lacks {schema.names[index]}", INVALID_FIELD)
    for index, default in schema.defaults:
        if values[index] is None:
            values[index] = default
    return schema.cls(*values), pos


def _read_composite(buf: bytes, pos: int) -> tuple[Any, int]:
    code, value_at = f.read_descriptor(buf, pos, _CODES_BY_SYMBOL)
    schema = _BY_CODE.get(code) if code is not None else None
    if schema is None:
        return decode_at(buf, pos)
    return _read_schema(buf, value_at, schema)


def decode_composite(buf: bytes, offset: int = 0) -> tuple[Any, int]:
    """The described list at `offset` as an instance of its class here, or Described when there is none."""
    try:
        return _read_composite(buf, offset)
    except (IndexError, struct.error):
        raise DecodeError("a described list ends before its last octet") from None
    except UnicodeDecodeError:
        raise DecodeError("a described list holds a string that is not valid UTF-8") from None


def encode_composite(value: Any) -> bytes:
    """A described list with all of its fields."""
    if isinstance(value, Described):
        return encode(value)
    schema = _BY_CLASS.get(type(value))
    if schema is None:
        raise EncodeError(f"{type(value).__name__} is not a described list")
    parts = []
    for name, write in zip(schema.names, schema.writers, strict=True):
        item = getattr(value, name)
        parts.append(f.NULL if item is None else write(item))
    return schema.descriptor + encode_list_body(parts)


def _composite_field(*codes: int) -> f.FieldType:
    """A field that holds one of these described lists; another descriptor is kept as Described."""
    allowed = frozenset(codes)

    def read(buf: bytes, pos: int) -> tuple[Any, int]:
        if buf[pos] == 0x40:
            return None, pos + 1
        code, value_at = f.read_descriptor(buf, pos, _CODES_BY_SYMBOL)
        if code in allowed:
            return _read_schema(buf, value_at, _BY_CODE[code])
        if code in _BY_CODE:
            raise DecodeError(f"a {_BY_CODE[code].cls.__name__.lower()} stands where it may not")
        return decode_at(buf, pos)

    return f.FieldType(read, encode_composite)


_SOURCE = _composite_field(0x28)
_TARGET = _composite_field(0x29, 0x30)
_OUTCOME = _composite_field(0x24, 0x25, 0x26, 0x27, 0x33)
_DELIVERY_STATE = _composite_field(0x23, 0x24, 0x25, 0x26, 0x27, 0x33, 0x34)


# ------------------------------------------------------------------------------------------------ errors, states


@_described(0x1D, "amqp:error:list", f.SYMBOL, f.STRING, f.FIELDS)
@dataclass(slots=True)
class AmqpError:
    condition: str
    description: str | None = None
    info: dict[Any, Any] | None = None


def _write_error(error: Any) -> bytes:
    if not isinstance(error, AmqpError):
        return encode_composite(error)
    info = error.info or {"condition": error.condition}
    parts = [encode_symbol(error.condition), encode_string(error.description or ""), f.write_symbol_map(info)]
    return b"\x00\x53\x1d" + encode_list_body(parts)


_ERROR = f.FieldType(_composite_field(0x1D).read, _write_error)


@_described(0x23, "amqp:received:list", f.UINT, f.ULONG)
@dataclass(slots=True)
class Received:
    section_number: int
    section_offset: int


@_described(0x24, "amqp:accepted:list")
@dataclass(slots=True)
class Accepted:
    pass


@_described(0x25, "amqp:rejected:list", _ERROR)
@dataclass(slots=True)
class Rejected:
    error: AmqpError | None = None


@_described(0x26, "amqp:released:list")
@dataclass(slots=True)
class Released:
    pass


@_described(0x27, "amqp:modified:list", f.BOOLEAN, f.BOOLEAN, f.FIELDS)
@dataclass(slots=True)
class Modified:
    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[Any, Any] | None = None


# ------------------------------------------------------------------------------------------------ transactions


@_described(0x31, "amqp:declare:list", f.ANY)
@dataclass(slots=True)
class Declare:
    global_id: Any = None


@_described(0x32, "amqp:discharge:list", f.BINARY, f.BOOLEAN)
@dataclass(slots=True)
class Discharge:
    txn_id: bytes
    fail: bool | None = None


@_described(0x33, "amqp:declared:list", f.BINARY)
@dataclass(slots=True)
class Declared:
    txn_id: bytes


Outcome = Accepted | Rejected | Released | Modified | Declared | Described


@_described(0x34, "amqp:transactional-state:list", f.BINARY, _OUTCOME)
@dataclass(slots=True)
class TransactionalState:
    txn_id: bytes
    outcome: Outcome | None = None


DeliveryState = Outcome | Received | TransactionalState


@_described(0x30, "amqp:coordinator:list", f.SYMBOLS)
@dataclass(slots=True)
class Coordinator:
    capabilities: tuple[str, ...] | None = None


# ------------------------------------------------------------------------------------------------ termini


@_described(
    0x28,
    "amqp:source:list",
    f.ANY,
    f.UINT,
    f.SYMBOL,
    f.UINT,
    f.BOOLEAN,
    f.FIELDS,
    f.SYMBOL,
    f.FIELDS,
    _OUTCOME,
    f.SYMBOLS,
    f.SYMBOLS,
)
@dataclass(slots=True)
class Source:
    address: Any = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Any, Any] | None = None
    distribution_mode: str | None = None
    filter: dict[Any, Any] | None = None
    default_outcome: Outcome | None = None
    outcomes: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] | None = None


@_described(0x29, "amqp:target:list", f.ANY, f.UINT, f.SYMBOL, f.UINT, f.BOOLEAN, f.FIELDS, f.SYMBOLS)
@dataclass(slots=True)
class Target:
    address: Any = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Any, Any] | None = None
    capabilities: tuple[str, ...] | None = None


# ------------------------------------------------------------------------------------------------ frame bodies


@_described(
    0x10,
    "amqp:open:list",
    f.STRING,
    f.STRING,
    f.UINT,
    f.USHORT,
    f.UINT,
    f.SYMBOLS,
    f.SYMBOLS,
    f.SYMBOLS,
    f.SYMBOLS,
    f.FIELDS,
)
@dataclass(slots=True)
class Open:
    container_id: str
    hostname: str | None = None
    max_frame_size: int = UINT_MAX
    channel_max: int = 65_535
    idle_time_out: int | None = None  # milliseconds
    outgoing_locales: tuple[str, ...] | None = None
    incoming_locales: tuple[str, ...] | None = None
    offered_capabilities: tuple[str, ...] | None = None
    desired_capabilities: tuple[str, ...] | None = None
    properties: dict[Any, Any] | None = None


@_described(0x11, "amqp:begin:list", f.USHORT, f.UINT, f.UINT, f.UINT, f.UINT, f.SYMBOLS, f.SYMBOLS, f.FIELDS)
@dataclass(slots=True)
class Begin:
    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = UINT_MAX
    offered_capabilities: tuple[str, ...] | None = None
    desired_capabilities: tuple[str, ...] | None = None
    properties: dict[Any, Any] | None = None


@_described(
    0x12,
    "amqp:attach:list",
    f.STRING,
    f.UINT,
    f.BOOLEAN,
    f.UBYTE,
    f.UBYTE,
    _SOURCE,
    _TARGET,
    f.MAP,
    f.BOOLEAN,
    f.UINT,
    f.ULONG,
    f.SYMBOLS,
    f.SYMBOLS,
    f.FIELDS,
)
@dataclass(slots=True)
class Attach:
    name: str
    handle: int
    role: bool
    snd_settle_mode: int = 2  # 0 unsettled, 1 settled, 2 mixed
    rcv_settle_mode: int = 0  # 0 first, 1 second
    source: Source | Described | None = None
    target: Target | Coordinator | Described | None = None
    unsettled: dict[Any, Any] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: tuple[str, ...] | None = None
    desired_capabilities: tuple[str, ...] | None = None
    properties: dict[Any, Any] | None = None


@_described(
    0x13,
    "amqp:flow:list",
    f.UINT,
    f.UINT,
    f.UINT,
    f.UINT,
    f.UINT,
    f.UINT,
    f.UINT,
    f.UINT,
    f.BOOLEAN,
    f.BOOLEAN,
    f.FIELDS,
)
@dataclass(slots=True)
class Flow:
    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: dict[Any, Any] | None = None


@_described(
    0x14,
    "amqp:transfer:list",
    f.UINT,
    f.UINT,
    f.BINARY,
    f.UINT,
    f.BOOLEAN,
    f.BOOLEAN,
    f.UBYTE,
    _DELIVERY_STATE,
    f.BOOLEAN,
    f.BOOLEAN,
    f.BOOLEAN,
)
@dataclass(slots=True)
class Transfer:
    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: DeliveryState | None = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


@_described(0x15, "amqp:disposition:list", f.BOOLEAN, f.UINT, f.UINT, f.BOOLEAN, _DELIVERY_STATE, f.BOOLEAN)
@dataclass(slots=True)
class Disposition:
    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: DeliveryState | None = None
    batchable: bool = False


@_described(0x16, "amqp:detach:list", f.UINT, f.BOOLEAN, _ERROR)
@dataclass(slots=True)
class Detach:
    handle: int
    closed: bool = False
    error: AmqpError | None = None


@_described(0x17, "amqp:end:list", _ERROR)
@dataclass(slots=True)
class End:
    error: AmqpError | None = None


@_described(0x18, "amqp:close:list", _ERROR)
@dataclass(slots=True)
class Close:
    error: AmqpError | None = None


# ------------------------------------------------------------------------------------------------ SASL frame bodies


@_described(0x40, "amqp:sasl-mechanisms:list", f.SYMBOLS)
@dataclass(slots=True)
class SaslMechanisms:
    sasl_server_mechanisms: tuple[str, ...]


@_described(0x41, "amqp:sasl-init:list", f.SYMBOL, f.BINARY, f.STRING)
@dataclass(slots=True)
class SaslInit:
    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@_described(0x42, "amqp:sasl-challenge:list", f.BINARY)
@dataclass(slots=True)
class SaslChallenge:
    challenge: bytes


@_described(0x43, "amqp:sasl-response:list", f.BINARY)
@dataclass(slots=True)
class SaslResponse:
    response: bytes


@_described(0x44, "amqp:sasl-outcome:list", f.UBYTE, f.BINARY)
@dataclass(slots=True)
class SaslOutcome:
    code: int
    additional_data: bytes | None = None


Performative = Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close
