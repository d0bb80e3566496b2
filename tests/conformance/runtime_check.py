"""The app under Microsoft's own Python runtime: azure-functions-runtime indexes it and invokes it.

The runtime declares Python >= 3.13 and is private API, so it is pinned and lives in an environment of its own
(build/runtime). The check covers the worker's side only: what the host does around it (keys, schedules, settling)
is not in that package.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from local.stack.ports import PortPicker
from tests.support.host_bad_apps import ACCEPTED, REFUSED
from tests.support.host_fixtures import AzuriteProcess, wait_for_port

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "runtime"
PROBE = Path(__file__).with_name("runtime_probe.py")
RUNTIME = "azure-functions-runtime==1.3.0"
EXTENSIONS = "azurefunctions-extensions-base==1.2.0"
INSTALL_TIMEOUT_S = 300
PROBE_TIMEOUT_S = 60
KEY = "key-for-tests-only"
BUS = (
    "Endpoint=sb://127.0.0.1:{};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={};"
    "UseDevelopmentEmulator=true;"
)
SUITE = "Microsoft's Functions runtime"


class RuntimeUnavailable(Exception):
    """The runtime cannot be installed here."""


def install() -> Path:
    """The interpreter of an environment that has the runtime and what the app needs; made by one process at a time."""
    HOME.parent.mkdir(exist_ok=True)
    with (HOME.parent / "runtime.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _install()


def _install() -> Path:
    python = HOME / "bin" / "python"
    stamp = HOME / ".ready"
    wanted = f"{RUNTIME} {EXTENSIONS}\n" + (ROOT / "requirements.txt").read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(HOME, ignore_errors=True)
    venv.create(HOME, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = (
        [*pip, "-r", str(ROOT / "requirements.txt")],
        [*pip, "--no-deps", "--ignore-requires-python", RUNTIME, EXTENSIONS],
    )
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise RuntimeUnavailable("installing the runtime takes too long") from None
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
            raise RuntimeUnavailable(f"{RUNTIME} cannot be installed: {lines[-1]}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def run() -> dict[str, Any]:
    """Install, probe, and report in the form of the other suites."""
    try:
        python = install()
    except RuntimeUnavailable as error:
        return _report(passed=0, failed=0, skipped=1, reasons=[str(error)])
    results = [*probe_app(python), *probe_index_rules(python)]
    failures = [f"{name}: {reason}" for name, reason in results if reason]
    return _report(passed=len(results) - len(failures), failed=len(failures), skipped=0, reasons=failures)


def index(folder: Path, settings: Mapping[str, str]) -> dict[str, Any]:
    """What the runtime says about an app in a folder, with requirements.txt and the runtime installed, and no more."""
    return _probe(install(), folder, "index", settings)


def _report(*, passed: int, failed: int, skipped: int, reasons: list[str]) -> dict[str, Any]:
    return {"suite": SUITE, "passed": passed, "failed": failed, "skipped": skipped, "reasons": reasons}


def probe_app(python: Path) -> list[tuple[str, str]]:
    """Index and invoke this project's function_app.py and the toy app with every trigger kind."""
    results: list[tuple[str, str]] = []
    toy = ROOT / "tests" / "support" / "host_apps" / "toy"
    for name, folder in (("app", ROOT), ("toy", toy)):
        with services() as settings:
            answer = _probe(python, folder, "invoke", settings)
        results.append((f"{name} is indexed", answer.get("error", "")))
        for function in answer.get("functions", ()):
            results.append((f"{name}: {function['name']} ({function['trigger']})", function["problem"]))
    return results


def probe_index_rules(python: Path) -> list[tuple[str, str]]:
    """The runtime must refuse what this project's host refuses, and accept what it accepts."""
    results: list[tuple[str, str]] = []
    for cases, refused in ((REFUSED, True), (ACCEPTED, False)):
        for name, case in cases.items():
            folder = ROOT / "build" / "runtime-cases" / name.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "function_app.py").write_text(case.source, encoding="utf-8")
            answer = _probe(python, folder, "index", {})
            agreed = bool(answer.get("error")) is refused
            verb = "refuses" if refused else "accepts"
            results.append((f"{verb} {name}", "" if agreed else f"the runtime does not: {answer}"))
    return results


@contextlib.contextmanager
def services() -> Iterator[dict[str, str]]:
    """The app's own broker and storage, so that its functions have somebody to talk to; their settings."""
    with tempfile.TemporaryDirectory() as data:
        picker = PortPicker()
        ports = [picker.pick(str(number), 0, 0).number for number in range(4)]
        picker.release()
        storage = AzuriteProcess(Path(data))
        command = [sys.executable, "-m", "local.broker", "--key", KEY, "--entities", str(ROOT / "local/entities.json")]
        for side, (amqp, admin) in zip(("primary", "secondary"), (ports[:2], ports[2:]), strict=True):
            command += ["--namespace", f"{side}:{amqp}:{admin}"]
        broker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_port(ports[2])
            yield {
                "AzureWebJobsStorage": storage.connection_string,
                "PairStateStorage": storage.connection_string,
                "ServiceBusPrimary": BUS.format(ports[0], KEY),
                "ServiceBusSecondary": BUS.format(ports[2], KEY),
            }
        finally:
            broker.terminate()
            broker.wait()
            storage.stop()


def _probe(python: Path, folder: Path, mode: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Run the probe in the runtime's environment, with the settings of the example file and those given."""
    example = json.loads((ROOT / "local.settings.example.json").read_text(encoding="utf-8"))["Values"]
    log = ROOT / "build" / "runtime-toy.log"
    log.parent.mkdir(exist_ok=True)
    environment = {**os.environ, **example, **settings, "TOY_LOG": str(log), "PYTHONPATH": str(folder)}
    # Functions that wait must not keep others from a thread.
    environment["PYTHON_THREADPOOL_THREAD_COUNT"] = "64"
    try:
        done = subprocess.run(
            [str(python), str(PROBE), str(folder), mode],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": "the probe takes too long"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": (done.stderr.strip().splitlines() or ["the probe said nothing"])[-1]}
    return answer


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
    sys.exit(0)
