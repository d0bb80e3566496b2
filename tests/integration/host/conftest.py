"""Real storage, a real broker and a real host for every test here."""

from __future__ import annotations

from tests.support.host_setup import azurite, broker, start_host, toy_log

__all__ = ["azurite", "broker", "start_host", "toy_log"]
