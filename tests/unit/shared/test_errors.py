from __future__ import annotations

import inspect

import pytest

from shared import errors
from shared.errors import ConfigurationError, PairingError, PrimaryFailed, SettingProblem

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, PairingError)]


def drawn_tree() -> dict[str, str]:
    """Parent of every error, as the module's docstring draws it."""
    parents: dict[str, str] = {}
    open_branches: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip("│├└─ ").partition(" ")[0]
        if name in {kind.__name__ for kind in ALL}:
            depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
            open_branches = [*open_branches[:depth], name]
            parents[name] = open_branches[depth - 1] if depth else "Exception"
    return parents


def test_the_docstring_draws_the_tree_that_exists() -> None:
    assert {kind.__name__: kind.__base__.__name__ for kind in ALL if kind.__base__} == drawn_tree()


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind is not ConfigurationError])
def test_an_error_without_a_text_says_what_its_documentation_says(kind: type[PairingError]) -> None:
    assert kind.__doc__ == str(kind())


def test_an_error_names_the_pair_and_the_entity_it_is_about() -> None:
    error = PrimaryFailed("It timed out.", pair="contoso~fabrikam", path="orders")
    assert "It timed out. (pair contoso~fabrikam, entity orders)" == str(error)
    assert ("contoso~fabrikam", "orders") == (error.pair, error.path)


def test_a_configuration_error_has_one_line_per_problem() -> None:
    problems = [SettingProblem(setting=name, problem="not set", example=f"{name}=1") for name in ("A", "B")]
    assert "A: not set; example: A=1\nB: not set; example: B=1" == str(ConfigurationError(problems))
