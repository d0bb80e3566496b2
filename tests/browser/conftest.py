"""Fixtures of tests in a browser."""

from __future__ import annotations

from tests.support.browser_fixtures import browser, page, watch, watched

__all__ = ["browser", "page", "watch", "watched"]
