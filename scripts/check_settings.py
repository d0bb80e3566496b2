"""Loads the function app with the settings of a file, as the Functions host would, and says what it found.

Settings come from the file named on the command line, else local.settings.json, else the example file; variables
of the environment win over the file, as with `func start`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "local.settings.example.json"


def settings_file(arguments: list[str]) -> Path:
    if arguments:
        return Path(arguments[0])
    own = ROOT / "local.settings.json"
    return own if own.exists() else EXAMPLE


def read_values(path: Path) -> dict[str, str]:
    try:
        values = json.loads(path.read_text())["Values"]
    except OSError as error:
        sys.exit(f"{path}: cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        sys.exit(f'{path}: not a settings file; example: {{"IsEncrypted": false, "Values": {{"NAME": "value"}}}}')
    return {str(name): str(value) for name, value in values.items()}


def main() -> None:
    path = settings_file(sys.argv[1:])
    for name, value in read_values(path).items():
        os.environ.setdefault(name, value)
    sys.path.insert(0, str(ROOT))
    import function_app
    from shared import composition

    settings = composition.settings()
    print(f"Checked: the settings of {path.name} are valid and the function app loads with them.")
    print(f"  primary    {settings.primary.name} at {settings.primary.address}")
    print(f"  secondary  {settings.secondary.name} at {settings.secondary.address}")
    print(f"  state      {settings.state_storage.table_endpoint}")
    for function in function_app.app.get_functions():
        print(f"  function   {function.get_function_name()}")
    print("Nothing was started: no local services exist yet, so nothing listens.")


if __name__ == "__main__":
    main()
