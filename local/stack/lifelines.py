"""Children that do not outlive their parent, even when it is killed hard (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Run in a fresh child before its program: ask the kernel to end it with its parent."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died between fork and here; then nobody would send the signal.
        if os.getppid() != parent:
            os._exit(1)
