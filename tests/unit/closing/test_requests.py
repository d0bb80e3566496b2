"""What may be said about a close or a fault over HTTP."""

from __future__ import annotations

import json

import pytest

from functions.closing import OPERATOR, Refused, Said, read_said
from shared.domain.factory import BY_LENGTH_MAX, REASON_LENGTH_MAX


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", Said(reason="", by=OPERATOR)),
        (b" \n", Said(reason="", by=OPERATOR)),
        (b"{}", Said(reason="", by=OPERATOR)),
        (b'{"reason": " spare\\n parts "}', Said(reason="spare parts", by=OPERATOR)),
        (b'{"reason": "r", "by": "ann", "other": 1}', Said(reason="r", by="ann")),
    ],
)
def test_a_close_may_say_why_and_who(body: bytes, expected: Said) -> None:
    assert expected == read_said(body, reason_needed=False)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "A fault needs a reason"),
        (b'{"reason": "  "}', 400, "A fault needs a reason"),
        (b"reason", 400, "not JSON"),
        (b"\xff", 400, "not JSON"),
        (b"[1]", 400, "not a JSON object"),
        (b'{"reason": 1}', 400, "reason is not text"),
        (b'{"reason": "r", "by": []}', 400, "by is not text"),
        (json.dumps({"reason": "r" * (REASON_LENGTH_MAX + 1)}).encode(), 400, "reason has 501 characters"),
        (json.dumps({"reason": "r", "by": "b" * (BY_LENGTH_MAX + 1)}).encode(), 400, "by has 101 characters"),
        (b" " * 20_000, 413, "at most 16384"),
    ],
)
def test_what_a_fault_cannot_take_is_refused_by_name(body: bytes, status: int, said: str) -> None:
    with pytest.raises(Refused) as refused:
        read_said(body, reason_needed=True)
    assert status == refused.value.answer.status
    assert said in refused.value.detail


def test_the_longest_reason_is_kept_whole() -> None:
    reason = "r" * REASON_LENGTH_MAX
    assert reason == read_said(json.dumps({"reason": reason}).encode(), reason_needed=True).reason
