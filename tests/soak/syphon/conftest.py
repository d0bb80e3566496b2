"""Fixtures of the syphon's long tests."""

from tests.support.send_fixtures import pair, storage

__all__ = ["pair", "storage"]
