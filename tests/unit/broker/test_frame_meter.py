"""Frames are counted however the bytes are cut."""

from __future__ import annotations

import pytest

from local.broker.amqp.frames import AMQP_HEADER, EMPTY_FRAME, SASL_HEADER
from local.broker.frame_meter import FrameMeter

LONG_FRAME = (300).to_bytes(4, "big") + bytes(296)
STREAM = SASL_HEADER + EMPTY_FRAME + AMQP_HEADER + LONG_FRAME + EMPTY_FRAME + LONG_FRAME


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100, len(STREAM)])
def test_headers_do_not_count_and_frames_do(step: int) -> None:
    meter = FrameMeter()
    for start in range(0, len(STREAM), step):
        meter.feed(STREAM[start : start + step])
    assert 4 == meter.count


def test_a_malformed_size_does_not_stop_the_count() -> None:
    meter = FrameMeter()
    meter.feed(bytes(40))
    assert 10 == meter.count
