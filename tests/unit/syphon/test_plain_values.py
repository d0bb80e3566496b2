"""Delivery annotations survive a look: they are noted, whatever their values are."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.envelope import unwrap, wrap
from shared.domain.message import DataBody
from shared.domain.pair import EntityPath
from shared.domain.plain_values import decoded, plain
from tests.support.sending import TYPED_VALUES, as_received, canonical, full_message

ORDERS = EntityPath("orders")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.binary(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@given(value=VALUES)
def test_what_was_noted_is_read_as_a_receiver_would_have(value: object) -> None:
    assert value == decoded(json.loads(json.dumps(plain(value))))


def test_a_message_that_was_only_looked_at_has_the_delivery_annotations_it_was_sent_with() -> None:
    values = {name: value for name, value in TYPED_VALUES.items() if name != "uuid"}
    sent = replace(full_message(DataBody((b"x",))), delivery_annotations=values)
    looked_at = replace(as_received(wrap(sent, ORDERS)), delivery_annotations={})
    assert canonical(values) == canonical(dict(unwrap(looked_at).message.delivery_annotations))


def test_a_uuid_is_noted_as_one() -> None:
    sent = replace(full_message(DataBody((b"x",))), delivery_annotations={"uuid": TYPED_VALUES["uuid"]})
    looked_at = replace(as_received(wrap(sent, ORDERS)), delivery_annotations={})
    restored = unwrap(looked_at).message.delivery_annotations["uuid"]
    assert ("uuid", str(TYPED_VALUES["uuid"])) == (restored.kind, restored.value)
