"""One instance of a plan that scales by function listens for some of the app's functions and knows the others."""

from __future__ import annotations

import pytest

from local.host.errors import ConfigurationError
from local.host.model import FunctionSpec
from local.host.selection import listened_for


def function(name: str, trigger: str) -> FunctionSpec:
    return FunctionSpec(
        name=name,
        function_id=name,
        directory="",
        call=lambda: None,
        is_async=False,
        requires_context=False,
        inputs={},
        outputs={},
        returns=None,
        trigger={"type": trigger, "name": "x"},
        bindings=(),
    )


APP = [
    function("send", "httpTrigger"),
    function("drain", "serviceBusTrigger"),
    function("coordinate", "orchestrationTrigger"),
    function("look", "activityTrigger"),
]


def names(chosen: frozenset[str] | None) -> list[str]:
    return [spec.name for spec in listened_for(APP, chosen)]


def test_without_a_choice_all_of_them_run() -> None:
    assert ["send", "drain", "coordinate", "look"] == names(None)


def test_a_function_runs_alone_and_durable_functions_stay_together() -> None:
    assert ["drain"] == names(frozenset({"drain"}))
    assert ["coordinate", "look"] == names(frozenset({"look"}))


def test_a_name_that_the_app_has_not_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="drian"):
        names(frozenset({"drian", "send"}))
