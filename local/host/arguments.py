"""Kinds of values on command lines."""

from __future__ import annotations

import argparse

PORT_MAX = 65535


def port_number(text: str) -> int:
    """A port, or 0 for any free one; for argparse."""
    if not (text.isascii() and text.isdigit() and int(text) <= PORT_MAX):
        raise argparse.ArgumentTypeError(f"'{text}' is not a port: a number from 0 to {PORT_MAX}, for example 7071")
    return int(text)
