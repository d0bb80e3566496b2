"""Whatever is wrong with an app or its settings, the host says so in one line and ends, or leaves one function out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.host_bad_apps import ACCEPTED, REFUSED
from tests.support.host_fixtures import ROOT, HostProcess, get

GOOD = {
    "host.json": '{"version": "2.0"}',
    "local.settings.json": '{"Values": {"A": "1"}}',
    "function_app.py": ACCEPTED["plain http"].source,
}


def write(folder: Path, **files: str | None) -> Path:
    for name, content in {**GOOD, **{key.replace("__", "."): value for key, value in files.items()}}.items():
        if content is not None:
            (folder / name).write_text(content, encoding="utf-8")
    return folder


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "local.host", "--app", str(folder), "--port", "0", *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"host__json": None}, "host.json does not exist"),
        ({"host__json": "{"}, "host.json is not valid JSON: line 1, column 2"),
        ({"host__json": '{"version": "2.0", "functionTimeout": "soon"}'}, "functionTimeout must be a TimeSpan"),
        ({"local.settings__json": "{oops"}, "local.settings.json is not valid JSON"),
        ({"function_app__py": None}, "function_app.py does not exist"),
        ({"function_app__py": "import nothing_of_that_name"}, "ModuleNotFoundError"),
        ({"function_app__py": "import sys; sys.exit('BACKLOG_QUEUE_COUNT is wrong')"}, "BACKLOG_QUEUE_COUNT is wrong"),
        ({"function_app__py": REFUSED["two apps"].source}, "more than one FunctionApp"),
        ({"function_app__py": REFUSED["a parameter without a binding"].source}, "function 'extra'"),
    ],
)
def test_a_host_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, files: dict[str, str | None], said: str
) -> None:
    done = run(write(tmp_path, **files))
    lines = [line for line in done.stderr.splitlines() if line.startswith("host: ")]
    assert (1, 1) == (done.returncode, len(lines)), done.stderr
    assert said in lines[0]
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path)
    running = HostProcess(tmp_path, {}, folder)
    port = running.address.rpartition(":")[2]
    done = run(folder, "--port", port)
    running.kill()
    assert 1 == done.returncode
    assert f"host: cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr


def test_route_clashes_and_missing_settings_leave_one_function_out(tmp_path: Path) -> None:
    source = (
        "import azure.functions as func\n"
        "app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)\n"
        '@app.route(route="same/{a}")\n'
        "async def first(req: func.HttpRequest) -> str: return 'first'\n"
        '@app.route(route="same/{b}")\n'
        "async def second(req: func.HttpRequest) -> str: return 'second'\n"
        '@app.route(route="%MISSING%")\n'
        "async def third(req: func.HttpRequest) -> str: return 'third'\n"
        '@app.timer_trigger(schedule="0 * * * * *", arg_name="timer")\n'
        "async def fourth(timer): pass\n"
        '@app.blob_trigger(arg_name="blob", path="x", connection="S")\n'
        "async def fifth(blob: func.InputStream): pass\n"
    )
    host = HostProcess(tmp_path, {}, write(tmp_path, function_app__py=source))
    answer = get(f"{host.address}/api/same/1")
    host.kill()
    assert (200, b"first") == answer
    log = (tmp_path / "host.log").read_text()
    for said in (
        "function 'second': route 'api/same/{b}' is already taken by 'first'; the other functions go on",
        "function 'third': '%MISSING%' does not resolve",
        "function 'fourth': needs storage, but AzureWebJobsStorage is not set",
        "function 'fifth': trigger 'blobTrigger' is not supported locally",
    ):
        assert said in log


def test_storage_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    source = (
        "import azure.functions as func\napp = func.FunctionApp()\n"
        '@app.timer_trigger(schedule="0 * * * * *", arg_name="timer")\nasync def tick(timer): pass\n'
    )
    nowhere = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;TableEndpoint=http://127.0.0.1:9/a;"
    settings = json.dumps({"Values": {"AzureWebJobsStorage": nowhere}})
    done = run(write(tmp_path, function_app__py=source, **{"local.settings__json": settings}))
    assert 1 == done.returncode
    assert "host: storage at http://127.0.0.1:9/a does not answer" in done.stderr
    assert "YQ==" not in done.stderr
