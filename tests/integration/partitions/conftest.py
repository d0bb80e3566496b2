"""Fixtures shared by the tests of the syphon."""

from tests.support.send_fixtures import pair, storage

__all__ = ["pair", "storage"]
