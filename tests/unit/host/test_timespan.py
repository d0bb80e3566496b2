from datetime import timedelta

import pytest

from local.host.timespan import format_timespan, parse_timespan


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:05:00", timedelta(minutes=5)),
        ("1.02:03:04", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("00:00:00.0010000", timedelta(milliseconds=1)),
        ("-00:00:00.0010000", timedelta(milliseconds=-1)),
        ("00:01", timedelta(minutes=1)),
        ("3", timedelta(days=3)),
    ],
)
def test_reads_the_forms_that_dotnet_writes(text: str, expected: timedelta) -> None:
    assert expected == parse_timespan(text)


@pytest.mark.parametrize("text", ["", "five minutes", "00:60:00", "24:00:00", "1:2:3:4", "PT5M"])
def test_refuses_what_is_no_timespan(text: str) -> None:
    with pytest.raises(ValueError, match="TimeSpan"):
        parse_timespan(text)


@pytest.mark.parametrize("text", ["00:05:00", "1.02:03:04", "-00:00:00.0010000", "00:00:00.1234560"])
def test_writes_what_it_reads(text: str) -> None:
    assert text == format_timespan(parse_timespan(text))
