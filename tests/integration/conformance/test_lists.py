"""The lists of known, chosen and slow tests name tests that exist, so that none goes stale unnoticed."""

from __future__ import annotations

from tests.conformance import chosen, known, suites
from tests.conformance.worker import CollectedTest


def names_of(collected: list[CollectedTest]) -> set[str]:
    full = {suites.short_name(test.node) for test in collected if test.live}
    return full | {suites.without_parameters(name) for name in full}


def test_every_known_test_exists(collected: list[CollectedTest]) -> None:
    assert known.KNOWN.keys() - names_of(collected) == set()


def test_every_chosen_test_exists_and_is_expected_to_pass(collected: list[CollectedTest]) -> None:
    assert chosen.FAST - names_of(collected) == set()
    assert {name for name in chosen.FAST if known.known(name) is not None} == set()


def test_every_slow_test_exists(collected: list[CollectedTest]) -> None:
    assert suites.SLOW_SECONDS.keys() - names_of(collected) == set()


def test_a_whole_run_covers_every_live_file_of_the_sdk(collected: list[CollectedTest]) -> None:
    assert {suites.suite_of(test.node) for test in collected} == {suite.path for suite in suites.SUITES}
