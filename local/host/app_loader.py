"""Import function_app.py and index it, as the Python worker does."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from azure.functions import FunctionRegister

from local.host.errors import AppLoadError, FunctionRefused, one_line
from local.host.model import ENTITY_TRIGGER, FunctionSpec, IndexedApp
from local.host.validation import describe

DEFAULT_SCRIPT = "function_app.py"
SCRIPT_SETTING = "PYTHON_SCRIPT_FILE_NAME"

OnRefused = Callable[[FunctionRefused], None]


def load_app(directory: Path, *, on_refused: OnRefused) -> IndexedApp:
    """Import and index the app; functions this host cannot run are reported and left out.

    What the worker itself would refuse raises AppLoadError: in Azure such an app has no functions at all.
    """
    script = os.environ.get(SCRIPT_SETTING, DEFAULT_SCRIPT)
    path = directory / script
    if not path.is_file():
        raise AppLoadError(f"{path} does not exist; the host runs a Functions app of the Python v2 model")
    app = find_app(import_script(path), script)
    try:
        functions = app.get_functions()
    except Exception as error:
        raise AppLoadError(f"{script} cannot be indexed: {one_line(error)}") from error
    if not functions:
        raise AppLoadError(f"{script} defines no functions")
    described: list[FunctionSpec] = []
    for function in functions:
        try:
            described.append(describe(function))
        except FunctionRefused as refused:
            raise AppLoadError(f"{script}: {refused}") from refused
    return IndexedApp(
        functions=tuple(spec for spec in described if _is_runnable(spec, on_refused)),
        directory=str(directory),
        script=script,
    )


def _is_runnable(spec: FunctionSpec, on_refused: OnRefused) -> bool:
    if spec.trigger_type == ENTITY_TRIGGER:
        on_refused(FunctionRefused(spec.name, "durable entities are not supported by the local host"))
        return False
    return True


def import_script(path: Path) -> ModuleType:
    """Run the script afresh, with its folder first on the path, as the worker's import does."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise AppLoadError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        said = error.code if isinstance(error.code, str) else f"exit code {error.code}"
        raise AppLoadError(f"{path.name} ended while it was imported: {said}") from error
    except Exception as error:
        raise AppLoadError(f"{path.name} cannot be imported: {_where(error, path)}{one_line(error)}") from error
    return module


def _where(error: Exception, path: Path) -> str:
    """File and line the error came from, so that one line is enough to find it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(str(path.parent))]
    kind = type(error).__name__
    if not own:
        return f"{kind}: "
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}: {kind}: "


def find_app(module: ModuleType, script: str) -> FunctionRegister:
    """The one FunctionApp (or DFApp) at module level."""
    found = [(name, value) for name, value in vars(module).items() if isinstance(value, FunctionRegister)]
    if not found:
        raise AppLoadError(f"{script} has no FunctionApp at module level")
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise AppLoadError(f"{script} has more than one FunctionApp at module level ({names}); exactly one is allowed")
    return found[0][1]
