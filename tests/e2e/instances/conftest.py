"""Fixtures of the app with every function in a process of its own."""

from tests.support.send_fixtures import pair, storage

__all__ = ["pair", "storage"]
