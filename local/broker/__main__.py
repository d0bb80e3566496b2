"""`python -m local.broker`: serve namespaces, or set faults on a broker that runs."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
