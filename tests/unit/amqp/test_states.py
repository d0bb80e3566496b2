"""The tables of states.py, checked as data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from local.broker.amqp.errors import LocalProtocolError, RemoteProtocolError
from local.broker.amqp.states import (
    CONNECTION_MOVES,
    LINK_MOVES,
    SESSION_MOVES,
    ConnectionMove,
    ConnectionState,
    LinkMove,
    LinkState,
    SessionMove,
    SessionState,
    move,
)

TABLES: list[tuple[Mapping[Any, Any], Enum, Enum]] = [
    (CONNECTION_MOVES, ConnectionState.START, ConnectionState.CLOSED),
    (SESSION_MOVES, SessionState.MAPPED, SessionState.ENDED),
    (LINK_MOVES, LinkState.ATTACHING, LinkState.DETACHED),
]


@pytest.mark.parametrize(("table", "first", "last"), TABLES)
def test_every_state_is_reachable_and_can_reach_the_end(table: Mapping[Any, Any], first: Enum, last: Enum) -> None:
    reached = {first}
    for _ in table:
        reached |= {after for (before, _), after in table.items() if before in reached}
    assert reached == set(type(first))
    for state in type(first):
        assert last in {after for (before, _), after in table.items() if before is state}


@pytest.mark.parametrize(("table", "_first", "last"), TABLES)
def test_nothing_leaves_the_last_state(table: Mapping[Any, Any], _first: Enum, last: Enum) -> None:
    assert {after for (before, _), after in table.items() if before is last} == {last}


def test_a_move_that_is_not_in_the_table_blames_whoever_made_it() -> None:
    with pytest.raises(LocalProtocolError):
        move(LINK_MOVES, LinkState.ATTACHED, LinkMove.ATTACH_SENT)
    with pytest.raises(LocalProtocolError):
        move(SESSION_MOVES, SessionState.ENDED, SessionMove.END_SENT)
    with pytest.raises(RemoteProtocolError) as caught:
        move(CONNECTION_MOVES, ConnectionState.OPENED, ConnectionMove.OPEN_RECEIVED)
    assert caught.value.condition == "amqp:illegal-state"
