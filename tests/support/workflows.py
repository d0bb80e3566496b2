"""What can be said about GitHub workflows without GitHub: checks over text, so that tests can plant mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.app_process import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
#: A commit, or a version to its last number.
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@(?:[0-9a-f]{40}|v\d+\.\d+\.\d+)")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
#: What a workflow may take from outside. None of it is a secret: ids, places and names.
ALLOWED = {
    "github.ref", "inputs.environment", "inputs.provision",
    "vars.AZURE_CLIENT_ID", "vars.AZURE_TENANT_ID", "vars.AZURE_SUBSCRIPTION_ID", "vars.AZURE_ENV_NAME",
    "vars.AZURE_LOCATION", "vars.SECONDARY_LOCATION", "vars.ALERT_EMAIL",
}  # fmt: skip
_SECRETS = re.compile(r"client-secret|AZURE_CREDENTIALS|password|creds:", re.IGNORECASE)


def workflow_texts() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(WORKFLOWS.glob("*.yml"))}


def workflow_problems(text: str) -> list[str]:
    content: dict[Any, Any] = yaml.safe_load(text)
    found = [f"{name} is missing" for name in ("name", "permissions", "jobs") if name not in content]
    if True not in content:  # YAML 1.1 reads the key `on` as a truth value
        found.append("on is missing")
    if not isinstance(content.get("permissions"), dict):
        found.append("permissions are not listed one by one")
    found += [f"{used} is not pinned" for used in _used(content) if not _PINNED.fullmatch(used)]
    found += [
        f"{name} runs without a time limit"
        for name, job in content.get("jobs", {}).items()
        if "timeout-minutes" not in job
    ]
    expressions = {one.strip() for one in _EXPRESSION.findall(text)}
    found += [f"{one} is not one of the values a workflow may take" for one in sorted(expressions - ALLOWED)]
    return found + [f"{one} is a secret" for one in _SECRETS.findall(text)]


def _used(content: dict[Any, Any]) -> Iterator[str]:
    for job in content.get("jobs", {}).values():
        yield from (step["uses"] for step in job.get("steps", ()) if "uses" in step)


def commands(text: str) -> list[str]:
    """What the steps run, in order, each command on one line."""
    content = yaml.safe_load(text)
    steps = [step for job in content["jobs"].values() for step in job["steps"]]
    return [" ".join(step["run"].replace("\\\n", " ").split()) for step in steps if "run" in step]
