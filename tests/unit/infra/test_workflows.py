"""The workflows as far as they can be checked without GitHub. Every check is shown to fail on a planted mistake."""

from __future__ import annotations

import os
import re

import pytest
import yaml

from tests.support import infra
from tests.support.app_process import ROOT
from tests.support.workflows import commands, workflow_problems, workflow_texts

TEXTS = workflow_texts()


def test_ci_calls_the_one_script_that_any_machine_can_run() -> None:
    assert [".ci/run"] == commands(TEXTS["ci.yml"])
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    events = yaml.safe_load(TEXTS["ci.yml"])[True]
    assert {"push", "pull_request", "workflow_dispatch"} == set(events)


def test_ci_runs_on_the_python_that_is_deployed() -> None:
    deployed = re.search(r"version: '(\d+\.\d+)'", infra.infra_texts()["app.bicep"])
    used = re.search(r"python-version: '(\d+\.\d+)'", TEXTS["ci.yml"])
    assert deployed is not None
    assert used is not None
    assert deployed[1] == used[1]


def test_ci_may_only_read_and_only_a_deployment_gets_a_token_of_its_own() -> None:
    permissions = {name: yaml.safe_load(text)["permissions"] for name, text in TEXTS.items()}
    expected = {"ci.yml": {"contents": "read"}, "deploy.yml": {"contents": "read", "id-token": "write"}}
    assert expected == permissions


def test_a_deployment_logs_in_by_federated_identity_and_takes_the_syphon_first() -> None:
    login, *rest = commands(TEXTS["deploy.yml"])
    assert login == (
        'azd auth login --client-id "$AZURE_CLIENT_ID" --tenant-id "$AZURE_TENANT_ID" '
        "--federated-credential-provider github"
    )
    assert ["azd provision --no-prompt", "azd deploy syphon --no-prompt", "azd deploy sender --no-prompt"] == rest
    services = yaml.safe_load((ROOT / "azure.yaml").read_text(encoding="utf-8"))["services"]
    assert {"syphon", "sender"} == set(services)


def test_a_deployment_gives_the_template_every_value_it_needs() -> None:
    """Values without a default in main.parameters.json must come from the workflow's environment."""
    needed = {
        match
        for value in infra.read_parameters()["parameters"].values()
        for match in re.findall(r"^\$\{(\w+)\}$", value["value"])
    }
    given = yaml.safe_load(TEXTS["deploy.yml"])["jobs"]["deploy"]["env"]
    assert {"AZURE_ENV_NAME", "AZURE_LOCATION", "SECONDARY_LOCATION"} == needed
    assert needed <= set(given)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_workflows_are_pinned_bounded_and_hold_no_secret(name: str) -> None:
    assert [] == workflow_problems(TEXTS[name])


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("Azure/setup-azd@v2.3.0", "Azure/setup-azd@v2", "Azure/setup-azd@v2 is not pinned"),
        ("Azure/setup-azd@v2.3.0", "Azure/setup-azd@main", "is not pinned"),
        ("vars.AZURE_CLIENT_ID", "secrets.AZURE_CLIENT_ID", "secrets.AZURE_CLIENT_ID is not one"),
        ("--federated-credential-provider github", '--client-secret "$S"', "client-secret is a secret"),
        ("    timeout-minutes: 60\n", "", "runs without a time limit"),
        ("permissions:\n  contents: read\n  id-token: write\n", "permissions: write-all\n", "not listed one by one"),
    ],
)
def test_a_mistake_in_a_workflow_is_found(right: str, wrong: str, said: str) -> None:
    assert right in TEXTS["deploy.yml"]
    text = TEXTS["deploy.yml"].replace(right, wrong, 1)
    assert any(said in problem for problem in workflow_problems(text))


def test_only_a_person_starts_a_deployment() -> None:
    assert {"workflow_dispatch"} == set(yaml.safe_load(TEXTS["deploy.yml"])[True])
