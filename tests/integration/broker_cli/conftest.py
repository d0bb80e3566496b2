"""A fault breaks connections; nothing of that is left to other tests."""

from __future__ import annotations

from tests.support.sdk_leftovers import sdk_leftovers_are_swept

__all__ = ["sdk_leftovers_are_swept"]
