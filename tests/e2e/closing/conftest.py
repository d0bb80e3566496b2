"""Fixtures of the tests that run the whole app in processes of their own."""

from tests.support.send_fixtures import pair, storage

__all__ = ["pair", "storage"]
