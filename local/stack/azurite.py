"""Azurite: where it is installed and how it is started."""

from __future__ import annotations

import sys
from pathlib import Path

LOOPBACK = "127.0.0.1"
USUAL_PORTS = (10000, 10001, 10002)


class AzuriteMissing(Exception):
    """Azurite is not installed."""


def azurite_launcher(root: Path) -> Path:
    """The command that set-up leaves beside the interpreter, whichever Node.js it runs on."""
    for folder in (Path(sys.prefix), root / ".venv"):
        launcher = folder / "bin" / "azurite"
        if launcher.is_file():
            return launcher
    raise AzuriteMissing("Azurite is not installed; `make setup` installs it")


def azurite_command(
    root: Path, *, location: Path, blob: int, queue: int, table: int, certificate: Path | None = None
) -> list[str]:
    """The command line: loopback only, telemetry off, quiet. With a certificate (and its key): HTTPS and tokens."""
    tokens = [] if certificate is None else ["--oauth", "basic", "--cert", str(certificate), "--key", str(certificate)]
    return [
        str(azurite_launcher(root)),
        "--silent",
        "--disableTelemetry",
        "--skipApiVersionCheck",
        "--location", str(location),
        "--blobHost", LOOPBACK, "--blobPort", str(blob),
        "--queueHost", LOOPBACK, "--queuePort", str(queue),
        "--tableHost", LOOPBACK, "--tablePort", str(table),
        *tokens,
    ]  # fmt: skip
