"""Fixtures of the whole app on the local host."""

from tests.support.send_fixtures import pair, storage

__all__ = ["pair", "storage"]
