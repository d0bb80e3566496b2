from __future__ import annotations

import dataclasses
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.connections.namespace import NAME_SETTINGS, NAMESPACE_SETTINGS
from shared.connections.storage import STORAGE_SETTINGS
from shared.errors import ConfigurationError
from shared.settings import Settings, options
from tests.support.app_process import ROOT, example_settings

KEY = "c2VjcmV0LW9mLXRoaXMtdGVzdA=="
REQUIRED = {
    "ServiceBusPrimary": f"Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={KEY}",
    "ServiceBusSecondary": f"Endpoint=sb://fabrikam.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={KEY}",
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
}


def problems(**settings: str) -> list[str]:
    """Lines about an environment that is fine but for these settings; an empty text means that one is not set."""
    with pytest.raises(ConfigurationError) as caught:
        Settings.from_env({**REQUIRED, **settings})
    return str(caught.value).splitlines()


def test_defaults_are_those_of_the_specification() -> None:
    settings = Settings.from_env(REQUIRED)
    expected = {
        "backlog_queue_count": 10,
        "backlog_partitioned": False,
        "failover_interval": timedelta(minutes=1),
        "ping_primary_interval": timedelta(minutes=1),
        "ping_successes": 1,
        "ping_all_partitions": True,
        "enable_syphon": False,
        "syphon_rate_limit": 0,
        "syphon_restart_time_to_live": False,
        "partner_grace": timedelta(seconds=5),
        "send_deadline": timedelta(seconds=30),
        "primary_attempt_timeout": timedelta(seconds=5),
        "partitioned_attempt_timeout": timedelta(seconds=20),
        "divert_while_suspect": False,
        "state_refresh": timedelta(seconds=2),
        "telemetry_folder": "",
        "telemetry_container": "",
        "telemetry_rotate_interval": timedelta(minutes=1),
        "telemetry_rotate_bytes": 32 * 1024 * 1024,
        "telemetry_buffer_events": 100_000,
        "open_telemetry": "off",
    }
    assert expected == {name: getattr(settings, name) for name in options()}


def test_every_value_is_read_from_its_setting() -> None:
    settings = Settings.from_env(
        {
            **REQUIRED,
            "BACKLOG_QUEUE_COUNT": "3",
            "FAILOVER_INTERVAL": "00:02:00",
            "PING_PRIMARY_INTERVAL": "PT1S",
            "PING_SUCCESSES": "3",
            "PING_ALL_PARTITIONS": "no",
            "BACKLOG_PARTITIONED": "1",
            "ENABLE_SYPHON": "On",
            "SYPHON_RATE_LIMIT": "500",
            "SYPHON_RESTART_TIME_TO_LIVE": "true",
            "PARTNER_GRACE": "PT0S",
            "SEND_DEADLINE": "PT5M",
            "PRIMARY_ATTEMPT_TIMEOUT": "PT8S",
            "PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED": "PT25S",
            "DIVERT_WHILE_SUSPECT": "1",
            "STATE_REFRESH": " PT0.2S ",
            "TELEMETRY_FOLDER": "/var/telemetry",
            "TELEMETRY_CONTAINER": "pair-telemetry",
            "TELEMETRY_ROTATE_INTERVAL": "PT5M",
            "TELEMETRY_ROTATE_BYTES": "1000",
            "TELEMETRY_BUFFER_EVENTS": "500",
            "OPEN_TELEMETRY": "OTLP",
        }
    )
    expected = {
        "backlog_queue_count": 3,
        "backlog_partitioned": True,
        "failover_interval": timedelta(minutes=2),
        "ping_primary_interval": timedelta(seconds=1),
        "ping_successes": 3,
        "ping_all_partitions": False,
        "enable_syphon": True,
        "syphon_rate_limit": 500,
        "syphon_restart_time_to_live": True,
        "partner_grace": timedelta(0),
        "send_deadline": timedelta(minutes=5),
        "primary_attempt_timeout": timedelta(seconds=8),
        "partitioned_attempt_timeout": timedelta(seconds=25),
        "divert_while_suspect": True,
        "state_refresh": timedelta(milliseconds=200),
        "telemetry_folder": "/var/telemetry",
        "telemetry_container": "pair-telemetry",
        "telemetry_rotate_interval": timedelta(minutes=5),
        "telemetry_rotate_bytes": 1000,
        "telemetry_buffer_events": 500,
        "open_telemetry": "otlp",
    }
    assert expected == {name: getattr(settings, name) for name in options()}


def test_a_partitioned_entity_gets_the_longer_attempt() -> None:
    settings = Settings.from_env(REQUIRED)
    assert timedelta(seconds=5) == settings.attempt_timeout(partitioned=False)
    assert timedelta(seconds=20) == settings.attempt_timeout(partitioned=True)


@pytest.mark.parametrize(
    ("setting", "inside", "outside"),
    [
        ("BACKLOG_QUEUE_COUNT", ["1", "10000"], ["0", "-1", "10001"]),
        ("FAILOVER_INTERVAL", ["PT0S", "PT60M"], ["PT60M0.000001S", "01:00:01"]),
        ("PING_PRIMARY_INTERVAL", ["PT1S", "PT30M"], ["PT0.999S", "PT30M1S"]),
        ("PARTNER_GRACE", ["PT0S", "PT60S"], ["PT61S"]),
        ("SEND_DEADLINE", ["PT1S", "PT5M"], ["PT0.9S", "PT5M1S"]),
        ("PRIMARY_ATTEMPT_TIMEOUT", ["PT0.1S", "PT5M"], ["PT0S", "PT6M"]),
        ("PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED", ["PT0.1S", "PT5M"], ["PT0S", "PT6M"]),
        ("STATE_REFRESH", ["PT0.2S", "PT60S"], ["PT0.1S", "PT61S"]),
    ],
)
def test_ranges_hold_at_both_ends(setting: str, inside: list[str], outside: list[str]) -> None:
    for text in inside:
        Settings.from_env({**REQUIRED, setting: text})
    for text in outside:
        (line,) = problems(**{setting: text})
        assert line.startswith(f"{setting}: '{text}' is outside ")


@pytest.mark.parametrize(
    ("setting", "text", "line"),
    [
        (
            "FAILOVER_INTERVAL",
            "60",
            "FAILOVER_INTERVAL: '60' is not a duration in ISO 8601 (as PT1M) or hh:mm:ss (as 00:01:00); "
            "example: FAILOVER_INTERVAL=PT1M",
        ),
        (
            "BACKLOG_QUEUE_COUNT",
            "ten",
            "BACKLOG_QUEUE_COUNT: 'ten' is not a whole number; example: BACKLOG_QUEUE_COUNT=10",
        ),
        (
            "OPEN_TELEMETRY",
            "on",
            "OPEN_TELEMETRY: 'on' is none of off, azure-monitor, otlp; example: OPEN_TELEMETRY=off",
        ),
        ("ENABLE_SYPHON", "maybe", "ENABLE_SYPHON: 'maybe' is neither true nor false; example: ENABLE_SYPHON=false"),
        (
            "STATE_REFRESH",
            KEY,
            "STATE_REFRESH: its value (28 characters) is not a duration in ISO 8601 (as PT1M) or hh:mm:ss "
            "(as 00:01:00); example: STATE_REFRESH=PT2S",
        ),
    ],
)
def test_a_bad_value_gives_one_line_with_setting_problem_and_example(setting: str, text: str, line: str) -> None:
    assert [line] == problems(**{setting: text})


def test_writing_out_every_default_changes_nothing() -> None:
    """Examples in error texts are these defaults, so each must be acceptable as it is written."""
    written_out = {known.setting: known.default for known in options().values()}
    assert Settings.from_env(REQUIRED) == Settings.from_env({**REQUIRED, **written_out})


def test_an_empty_setting_is_one_that_is_not_set() -> None:
    assert 10 == Settings.from_env({**REQUIRED, "BACKLOG_QUEUE_COUNT": " "}).backlog_queue_count


def test_all_problems_are_reported_together() -> None:
    lines = problems(
        FAILOVER_INTERVAL="soon",
        BACKLOG_QUEUE_COUNT="0",
        ServiceBusPrimary="Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=Root",
        ServiceBusSecondary="",
    )
    names = ["ServiceBusPrimary", "ServiceBusSecondary", "BACKLOG_QUEUE_COUNT", "FAILOVER_INTERVAL"]
    assert names == [line.partition(":")[0] for line in lines]


def test_the_pair_is_named_after_its_namespaces() -> None:
    assert "contoso~fabrikam" == Settings.from_env(REQUIRED).pair.name


def test_one_namespace_cannot_be_both_sides() -> None:
    (line,) = problems(ServiceBusSecondary=REQUIRED["ServiceBusPrimary"].replace("contoso", "Contoso"))
    assert line.startswith("ServiceBusSecondary: ServiceBusPrimary names the same namespace; a pair needs two;")


def test_settings_cannot_be_changed() -> None:
    settings = Settings.from_env(REQUIRED)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.backlog_queue_count = 2  # type: ignore[misc]


@given(
    setting=st.sampled_from([*REQUIRED, *NAME_SETTINGS.values(), *(known.setting for known in options().values())]),
    before=st.text(max_size=30),
    after=st.text(max_size=30),
)
def test_a_key_in_the_wrong_place_is_not_repeated(setting: str, before: str, after: str) -> None:
    secret = "Zm9vYmFyYmF6c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTI="
    try:
        seen = repr(Settings.from_env({**REQUIRED, setting: f"{before}{secret}{after}"}))
    except ConfigurationError as error:
        seen = f"{error}{error!r}{error.problems}"
    assert secret not in seen
    assert KEY not in seen


def test_the_example_file_holds_every_setting_and_is_valid() -> None:
    values = example_settings()
    known = {option.setting for option in options().values()}
    connections = {*NAMESPACE_SETTINGS.values(), *NAME_SETTINGS.values(), *STORAGE_SETTINGS}
    assert known | connections | {"FUNCTIONS_WORKER_RUNTIME"} == set(values)
    settings = Settings.from_env(values)
    assert settings.enable_syphon
    assert ("localhost:5672", "localhost:5673") == (settings.primary.address, settings.secondary.address)


def test_the_settings_page_lists_every_option_with_default_and_range() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([^`]*)` \| ([^|]*) \|", page, re.MULTILINE)
    assert [(known.setting, known.default, known.kind.takes) for known in options().values()] == rows


def test_every_option_that_decides_about_sending_and_pings_is_shown_and_no_secret() -> None:
    shown = Settings.from_env(REQUIRED).shown()
    assert {
        "backlog_queue_count": 10,
        "backlog_partitioned": False,
        "failover_interval": "PT1M",
        "ping_primary_interval": "PT1M",
        "ping_successes": 1,
        "ping_all_partitions": True,
        "enable_syphon": False,
        "syphon_rate_limit": 0,
        "syphon_restart_time_to_live": False,
        "partner_grace": "PT5S",
        "send_deadline": "PT30S",
        "primary_attempt_timeout": "PT5S",
        "primary_attempt_timeout_partitioned": "PT20S",
        "divert_while_suspect": False,
        "state_refresh": "PT2S",
    } == shown
