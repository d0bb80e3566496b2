import json
from pathlib import Path
from typing import Any

import pytest

from local.host.errors import ConfigurationError
from local.host.settings_files import (
    find_connection,
    is_disabled,
    merge_environment,
    read_settings,
    resolve_binding,
    resolve_references,
)


def write(path: Path, content: Any) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_the_example_serves_where_there_is_no_settings_file(tmp_path: Path) -> None:
    write(tmp_path / "local.settings.example.json", {"Values": {"A": "example"}})
    assert {"A": "example"} == dict(read_settings(tmp_path).values)
    write(tmp_path / "local.settings.json", {"Values": {"A": "own", "B": True, "C": 3}})
    assert {"A": "own", "B": "true", "C": "3"} == dict(read_settings(tmp_path).values)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    write(tmp_path / "local.settings.json", {"Values": {"A": "file", "B": "file"}})
    assert {"A": "environment", "B": "file"} == merge_environment(read_settings(tmp_path), {"A": "environment"})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "line 1"),
        ([], "JSON object"),
        ({"IsEncrypted": True}, "encrypted"),
        ({"Values": []}, "Values must be an object"),
        ({"Values": {"A": {"nested": 1}}}, "Values.A"),
        ({"Host": 1}, "Host must be an object"),
    ],
)
def test_a_broken_settings_file_is_one_clear_line(tmp_path: Path, content: Any, said: str) -> None:
    write(tmp_path / "local.settings.json", content)
    with pytest.raises(ConfigurationError, match=said):
        read_settings(tmp_path)


def test_a_chosen_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        read_settings(tmp_path, tmp_path / "mine.json")


def test_references_are_replaced_anywhere_in_a_value() -> None:
    assert "a-1-b-2" == resolve_references("a-%ONE%-b-%TWO%", {"ONE": "1", "TWO": "2"})


@pytest.mark.parametrize(("text", "said"), [("%NOPE%", "NOPE"), ("50%", "not closed"), ("%A%%", "not closed")])
def test_a_reference_that_does_not_resolve_is_an_error(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        resolve_references(text, {"A": "1"})


def test_a_bindings_connection_stays_a_name() -> None:
    binding = {"type": "serviceBusTrigger", "name": "msg", "queueName": "%Q%", "connection": "Q", "n": 1}
    assert {**binding, "queueName": "orders"} == resolve_binding(binding, {"Q": "orders"})


def test_connections_are_looked_up_in_the_real_hosts_order() -> None:
    settings = {"Bus": "root", "AzureWebJobsBus": "prefixed", "ConnectionStrings:Bus": "section"}
    assert "prefixed" == find_connection("Bus", settings).connection_string
    del settings["AzureWebJobsBus"]
    assert "section" == find_connection("Bus", settings).connection_string
    del settings["ConnectionStrings:Bus"]
    assert "root" == find_connection("Bus", settings).connection_string
    assert "default" == find_connection(None, {"AzureWebJobsServiceBus": "default"}).connection_string


def test_an_identity_based_connection_names_its_namespace_and_client() -> None:
    settings = {"Bus": "", "Bus__fullyQualifiedNamespace": "n.servicebus.windows.net", "Bus__clientId": "id"}
    found = find_connection("Bus", settings)
    assert (None, "n.servicebus.windows.net", "id") == (
        found.connection_string,
        found.fully_qualified_namespace,
        found.client_id,
    )


def test_a_missing_connection_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match="Bus__fullyQualifiedNamespace"):
        find_connection("Bus", {})


def test_a_connection_string_is_never_shown() -> None:
    assert "secret" not in repr(find_connection("Bus", {"Bus": "Endpoint=sb://x;SharedAccessKey=secret"}))


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("True", True), ("0", False)])
def test_functions_are_disabled_by_setting(value: str, expected: bool) -> None:
    assert expected is is_disabled("f", {"AzureWebJobs.f.Disabled": value})
