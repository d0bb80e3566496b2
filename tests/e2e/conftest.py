"""Whole programs as processes: started, killed, stopped."""

from __future__ import annotations

from tests.support.host_setup import azurite, toy_log

__all__ = ["azurite", "toy_log"]
