"""Fixtures shared by the tests of closing on Azurite and the embedded broker."""

from tests.support.send_fixtures import pair, storage

__all__ = ["pair", "storage"]
