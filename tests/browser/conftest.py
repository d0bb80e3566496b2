"""Fixtures of tests in a browser."""

from __future__ import annotations

from tests.support.browser_fixtures import browser, page, watch, watched
from tests.support.send_fixtures import pair, storage

__all__ = ["browser", "page", "pair", "storage", "watch", "watched"]
