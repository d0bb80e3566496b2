import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from local.host.errors import ConfigurationError
from local.host.host_json import parse_host_json, read_host_json
from shared.services.syphon import SyphonOptions

OWN_FILE = Path(__file__).resolve().parents[3] / "host.json"
#: What a call may need beyond its budget: the end of the batch it is at, and the host's own word on its message.
TO_END = timedelta(minutes=1)


def test_the_smallest_file_gives_the_real_hosts_defaults() -> None:
    config = parse_host_json({"version": "2.0"})
    assert "api" == config.route_prefix
    assert timedelta(minutes=30) == config.function_timeout
    assert (0, 8, 1) == (
        config.service_bus.prefetch_count,
        config.service_bus.max_concurrent_sessions,
        config.service_bus.max_concurrent_calls_per_session,
    )
    assert timedelta(minutes=5) == config.service_bus.max_auto_lock_renewal
    assert config.service_bus.auto_complete


def test_minus_one_millisecond_renews_locks_for_ever() -> None:
    config = parse_host_json(
        {"version": "2.0", "extensions": {"serviceBus": {"maxAutoLockRenewalDuration": "-00:00:00.0010000"}}}
    )
    assert config.service_bus.max_auto_lock_renewal is None


def test_minus_one_switches_the_function_timeout_off() -> None:
    assert parse_host_json({"version": "2.0", "functionTimeout": "-1"}).function_timeout is None


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], "the file"),
        ({}, "version"),
        ({"version": "1.0"}, "version"),
        ({"version": "2.0", "functionTimeout": "5 minutes"}, "functionTimeout"),
        ({"version": "2.0", "functionTimeout": "00:00:00"}, "functionTimeout"),
        ({"version": "2.0", "extensions": {"http": {"routePrefix": 3}}}, "extensions.http.routePrefix"),
        (
            {"version": "2.0", "extensions": {"serviceBus": {"maxConcurrentCalls": 0}}},
            "extensions.serviceBus.maxConcurrentCalls",
        ),
        (
            {"version": "2.0", "extensions": {"serviceBus": {"autoCompleteMessages": "yes"}}},
            "extensions.serviceBus.autoCompleteMessages",
        ),
        ({"version": "2.0", "extensions": {"serviceBus": {"maxBatchWaitTime": "00:03:00"}}}, "maxBatchWaitTime"),
        ({"version": "2.0", "extensions": {"durableTask": {"hubName": "no-dashes"}}}, "hubName"),
        ({"version": "2.0", "extensions": {"durableTask": {"storageProvider": {"type": "mssql"}}}}, "mssql"),
        ({"version": "2.0", "functions": "one"}, "functions"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it(values: Any, named: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_host_json(values)
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


def test_broken_json_is_one_line_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"version": "2.0",\n oops}')
    with pytest.raises(ConfigurationError, match="line 2, column 2"):
        read_host_json(tmp_path / "host.json")


def test_unknown_roots_are_warned_about_not_refused() -> None:
    assert 1 == len(parse_host_json({"version": "2.0", "surprise": {}}).warnings)


def test_this_projects_own_file_is_understood() -> None:
    assert json.loads(OWN_FILE.read_text())["functionTimeout"] == "00:10:00"
    assert () == read_host_json(OWN_FILE).warnings


def test_a_call_of_the_syphon_ends_in_time_and_its_message_stays_locked_until_then() -> None:
    """A call that reached functionTimeout would cost the whole worker process, with every other call in it."""
    config = read_host_json(OWN_FILE)
    assert config.function_timeout is not None
    assert config.service_bus.max_auto_lock_renewal is not None
    assert SyphonOptions.call_budget + TO_END < config.function_timeout
    assert config.function_timeout <= config.service_bus.max_auto_lock_renewal


def test_the_host_calls_the_syphon_with_one_message_at_a_time_and_completes_it() -> None:
    options = read_host_json(OWN_FILE).service_bus
    assert (1, True, 0) == (options.max_concurrent_calls, options.auto_complete, options.prefetch_count)
