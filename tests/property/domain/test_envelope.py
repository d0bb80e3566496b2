"""Whatever a message holds, it comes out of the backlog as it went in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.envelope import TRANSFER_PROPERTIES, unwrap, wrap
from shared.domain.message import DataBody, Header, Message, Properties, SequenceBody, Typed, ValueBody
from shared.domain.pair import EntityPath
from tests.support.sending import as_received, canonical_message

names = st.text(min_size=1, max_size=20).filter(lambda name: name not in TRANSFER_PROPERTIES)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: Typed("long", number)),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.uuids(),
    st.integers(0, 2**32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    st.timedeltas(timedelta(0), timedelta(days=1000)),
    st.text(st.characters(max_codepoint=126), max_size=10).map(lambda text: Typed("symbol", text)),
    st.sampled_from(["ubyte", "ushort", "uint", "ulong", "byte", "short"]).map(lambda kind: Typed(kind, 1)),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)
bodies = st.one_of(
    st.none(),
    st.lists(st.binary(max_size=50), min_size=1, max_size=3).map(lambda sections: DataBody(tuple(sections))),
    values.map(ValueBody),
    st.lists(st.lists(values, max_size=3), min_size=1, max_size=3).map(lambda sections: SequenceBody(tuple(sections))),
)
annotation_names = names.map(lambda name: f"x-opt-custom-{name}")
messages = st.builds(
    Message,
    body=bodies,
    header=st.builds(
        Header,
        durable=st.none() | st.booleans(),
        priority=st.none() | st.integers(0, 255),
        time_to_live_ms=st.none() | st.integers(1, 2**32 - 2),
    ),
    properties=st.builds(
        Properties,
        message_id=st.text(min_size=1, max_size=20) | st.uuids(),
        correlation_id=st.none() | st.text(max_size=20) | st.binary(max_size=10) | st.uuids(),
        group_id=st.none() | st.text(max_size=20),
        subject=st.none() | st.text(max_size=20),
    ),
    application_properties=st.dictionaries(names, scalars, max_size=6),
    annotations=st.dictionaries(annotation_names, scalars, max_size=4),
    footer=st.dictionaries(annotation_names, scalars, max_size=2),
)


@given(message=messages, trace=st.none() | st.text(max_size=60))
def test_a_message_survives_its_detour_with_and_without_a_trace(message: Message, trace: str | None) -> None:
    unwrapped = unwrap(as_received(wrap(message, EntityPath("orders"), trace=trace)))
    assert trace == unwrapped.trace
    assert canonical_message(message) == canonical_message(unwrapped.message)


@given(
    ttl_ms=st.integers(1, 10**10),
    spent_ms=st.integers(0, 10**10),
    waited_ms=st.integers(0, 10**10),
)
def test_the_time_left_never_grows(ttl_ms: int, spent_ms: int, waited_ms: int) -> None:
    header = Header(time_to_live_ms=min(ttl_ms, 2**32 - 2))
    waiting = as_received(wrap(Message(header=header), EntityPath("orders"), spent=timedelta(milliseconds=spent_ms)))
    unwrapped = unwrap(waiting, waited=timedelta(milliseconds=waited_ms))
    left_ms = (header.time_to_live_ms or 0) - spent_ms - waited_ms
    assert unwrapped.expired is (left_ms <= 0) or waited_ms == 0
    assert unwrapped.message.header.time_to_live_ms == max(left_ms, 1) or spent_ms >= (header.time_to_live_ms or 0)
