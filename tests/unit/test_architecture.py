"""Who may import whom. A module outside every layer, or an import its layer does not list, fails."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("benchmarks", "function_app", "functions", "local", "pipeline", "shared", "tests")
# Values only: nothing here reads a clock, a file, a network, the environment, or a source of randomness.
# fmt: off
PURE = frozenset({
    "__future__", "abc", "base64", "bisect", "collections", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "hashlib", "heapq", "inspect", "itertools", "json", "math", "operator", "re", "string", "struct",
    "types", "typing",
})
# fmt: on
ANY = ("",)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What modules of a layer may import: of ours, of other people's, and of the standard library (None: all of it)."""

    ours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    stdlib: frozenset[str] | None = None


CORE = ("shared.domain", "shared.errors")
CONTRACTS = (*CORE, "shared.ports", "shared.telemetry_events")
TOOLS = ("shared.bounded",)
FRAMES = tuple(f"pyspark.sql.{name}" for name in ("Column", "DataFrame", "Window", "functions", "types"))
# fmt: off
PURE_TABLES = (
    "backlog", "buckets", "cost_report", "costs", "deliveries", "entities", "instances", "outages", "partitions",
    "proof", "schemas", "shown", "tables", "time_line", "usage", "what_if",
)
# fmt: on
FUNCTIONS_SDK = ("azure.functions", "azure.durable_functions")
LAYERS = {
    "shared.errors": Layer(stdlib=PURE),
    "shared.version": Layer(stdlib=PURE),
    "shared.bounded": Layer(),
    "shared.domain": Layer(ours=CORE, stdlib=PURE),
    "shared.ports": Layer(ours=(*CORE, "shared.telemetry_events")),
    "shared.telemetry_events": Layer(ours=CORE),
    "shared.connections": Layer(ours=(*CORE, "shared.connections")),
    "shared.settings": Layer(ours=(*CORE, "shared.connections")),
    "shared.services": Layer(ours=(*CONTRACTS, *TOOLS, "shared.services")),
    "shared.adapters": Layer(
        ours=(*CONTRACTS, *TOOLS, "shared.connections", "shared.settings", "shared.adapters"), others=ANY
    ),
    "shared.composition": Layer(ours=("shared",)),
    "shared.parts": Layer(ours=("shared",)),
    "shared.paired_sender": Layer(ours=("shared",)),
    "functions": Layer(
        ours=(*CORE, "shared.composition", "shared.services", "shared.version", "functions"), others=FUNCTIONS_SDK
    ),
    "function_app": Layer(ours=("functions",), others=FUNCTIONS_SDK),
    "pipeline.servicebus": Layer(ours=("shared", "pipeline.servicebus"), others=ANY),
    # Frames in, frames out: no session, no files, no clock.
    **{f"pipeline.{name}": Layer(ours=("pipeline",), others=FRAMES, stdlib=PURE) for name in PURE_TABLES},
    "pipeline": Layer(ours=("shared.telemetry_events", "shared.domain", "pipeline"), others=ANY),
    "local.broker": Layer(ours=("local.broker",), others=ANY),
    "local.demo": Layer(ours=("local", "shared.adapters.receipts", "shared.bounded"), others=ANY),
    "local": Layer(ours=("local",), others=ANY),
}
PACKAGE_MARKERS = ("shared", "functions", "local")  # their __init__ modules hold a docstring and import nothing


def violations(root: Path) -> list[str]:
    found = []
    for path in sorted([root / "function_app.py", *(file for top in OURS for file in (root / top).rglob("*.py"))]):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if path.exists() and "node_modules" not in path.parts and not module.startswith(("tests", "benchmarks")):
            layer = layer_of(module)
            imports = list(imported_names(path, module))
            found += [f"{module} is in no layer"] if layer is None and imports else []
            found += [f"{module} imports {name}" for name in imports if layer and not allows(layer, name)]
    return found


def layer_of(module: str) -> Layer | None:
    if module in PACKAGE_MARKERS and module not in LAYERS:
        return None
    return next((layer for name, layer in LAYERS.items() if within(module, (name,))), None)


def imported_names(path: Path, module: str) -> Iterator[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            # `from shared import settings` names a module, `from shared.settings import Settings` a thing inside one;
            # the longer name decides in both cases, since a layer's names are prefixes.
            yield from (f"{source}.{alias.name}" for alias in node.names)


def allows(layer: Layer, name: str) -> bool:
    top = name.partition(".")[0]
    if top in OURS:
        return within(name, layer.ours)
    if top in sys.stdlib_module_names:
        return layer.stdlib is None or top in layer.stdlib
    return layer.others == ANY or within(name, layer.others)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def test_every_module_imports_only_what_its_layer_may_import() -> None:
    assert [] == violations(ROOT)


@pytest.mark.parametrize(
    ("module", "line", "complaint"),
    [
        ("shared/domain/pair.py", "import azure.servicebus", "shared.domain.pair imports azure.servicebus"),
        ("shared/domain/pair.py", "from azure import servicebus", "shared.domain.pair imports azure.servicebus"),
        ("shared/domain/ping.py", "import time", "shared.domain.ping imports time"),
        ("shared/domain/ping.py", "from .. import settings", "shared.domain.ping imports shared.settings"),
        ("shared/domain/ping.py", "def f():\n    import random", "shared.domain.ping imports random"),
        ("shared/errors.py", "from shared.domain import pair", "shared.errors imports shared.domain.pair"),
        ("shared/services/pinger.py", "import azure.core", "shared.services.pinger imports azure.core"),
        ("shared/services/pinger.py", "import shared.adapters", "shared.services.pinger imports shared.adapters"),
        ("shared/composition.py", "import tests.support", "shared.composition imports tests.support"),
        ("shared/stray.py", "import os", "shared.stray is in no layer"),
        ("functions/send.py", "import azure.servicebus", "functions.send imports azure.servicebus"),
        ("functions/send.py", "import local.broker", "functions.send imports local.broker"),
        ("function_app.py", "import shared.settings", "function_app imports shared.settings"),
        ("local/broker/server.py", "import shared.domain", "local.broker.server imports shared.domain"),
        ("pipeline/job.py", "import shared.settings", "pipeline.job imports shared.settings"),
        (
            "pipeline/deliveries.py",
            "from pyspark.sql import SparkSession",
            "pipeline.deliveries imports pyspark.sql.SparkSession",
        ),
        ("pipeline/deliveries.py", "import pathlib", "pipeline.deliveries imports pathlib"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, module: str, line: str, complaint: str) -> None:
    planted = tmp_path / module
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(f"{line}\n")
    assert [complaint] == violations(tmp_path)
