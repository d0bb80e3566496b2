"""Fixtures of contract tests."""

from tests.support.send_fixtures import storage

__all__ = ["storage"]
