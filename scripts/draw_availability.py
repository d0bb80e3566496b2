"""Draws docs/availability.md from the transition table."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from shared.domain.availability_diagram import page  # noqa: E402  # the path above makes it importable


def main() -> None:
    target = ROOT / "docs" / "availability.md"
    target.write_text(page())
    print(f"Drawn: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
