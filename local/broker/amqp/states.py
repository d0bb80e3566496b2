"""Every state of a connection, a session and a link, and every move between them. Nothing else changes a state.

Each machine is one table: (state, what happened) -> next state. A pair that is not in the table is not allowed, and
`move` says so with the error of whoever did it: RemoteProtocolError for the peer, LocalProtocolError for us.
The engine plays the server only: it answers open, begin and attach, and never sends the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from local.broker.amqp.errors import ILLEGAL_STATE, LocalProtocolError, RemoteProtocolError


class ConnectionState(Enum):
    START = "waiting for a protocol header"
    SASL = "waiting for sasl-init"
    AUTHENTICATED = "waiting for the AMQP header"
    HEADERS_EXCHANGED = "waiting for open"
    OPENED = "open"
    CLOSE_SENT = "waiting for the peer's close"
    CLOSED = "closed"


class ConnectionMove(Enum):
    SASL_HEADER = "sent the SASL header"
    AMQP_HEADER = "sent the AMQP header"
    SASL_ACCEPTED = "chose an offered mechanism"
    OPEN_RECEIVED = "sent open"
    CLOSE_RECEIVED = "sent close"
    CLOSE_SENT = "we sent close"
    LOST = "the stream ended or cannot be used any more"


CONNECTION_MOVES: Mapping[tuple[ConnectionState, ConnectionMove], ConnectionState] = {
    (ConnectionState.START, ConnectionMove.SASL_HEADER): ConnectionState.SASL,
    (ConnectionState.START, ConnectionMove.AMQP_HEADER): ConnectionState.HEADERS_EXCHANGED,
    (ConnectionState.SASL, ConnectionMove.SASL_ACCEPTED): ConnectionState.AUTHENTICATED,
    (ConnectionState.AUTHENTICATED, ConnectionMove.AMQP_HEADER): ConnectionState.HEADERS_EXCHANGED,
    (ConnectionState.HEADERS_EXCHANGED, ConnectionMove.OPEN_RECEIVED): ConnectionState.OPENED,
    (ConnectionState.OPENED, ConnectionMove.CLOSE_RECEIVED): ConnectionState.CLOSED,
    (ConnectionState.OPENED, ConnectionMove.CLOSE_SENT): ConnectionState.CLOSE_SENT,
    (ConnectionState.CLOSE_SENT, ConnectionMove.CLOSE_RECEIVED): ConnectionState.CLOSED,
    **{(state, ConnectionMove.LOST): ConnectionState.CLOSED for state in ConnectionState},
}


class SessionState(Enum):
    MAPPED = "mapped"
    END_SENT = "waiting for the peer's end"
    ENDED = "ended"


class SessionMove(Enum):
    END_RECEIVED = "sent end"
    END_SENT = "we sent end"
    CONNECTION_GONE = "the connection closed"


SESSION_MOVES: Mapping[tuple[SessionState, SessionMove], SessionState] = {
    (SessionState.MAPPED, SessionMove.END_RECEIVED): SessionState.ENDED,
    (SessionState.MAPPED, SessionMove.END_SENT): SessionState.END_SENT,
    (SessionState.END_SENT, SessionMove.END_RECEIVED): SessionState.ENDED,
    **{(state, SessionMove.CONNECTION_GONE): SessionState.ENDED for state in SessionState},
}


class LinkState(Enum):
    ATTACHING = "the peer attached, our answer is held"
    ATTACHED = "attached"
    DETACH_SENT = "waiting for the peer's detach"
    DETACHED = "detached"


class LinkMove(Enum):
    ATTACH_SENT = "we accepted"
    DETACH_SENT = "we detached or refused"
    DETACH_RECEIVED = "sent detach"
    SESSION_GONE = "the session ended"


LINK_MOVES: Mapping[tuple[LinkState, LinkMove], LinkState] = {
    (LinkState.ATTACHING, LinkMove.ATTACH_SENT): LinkState.ATTACHED,
    (LinkState.ATTACHING, LinkMove.DETACH_SENT): LinkState.DETACH_SENT,
    (LinkState.ATTACHING, LinkMove.DETACH_RECEIVED): LinkState.DETACHED,
    (LinkState.ATTACHED, LinkMove.DETACH_SENT): LinkState.DETACH_SENT,
    (LinkState.ATTACHED, LinkMove.DETACH_RECEIVED): LinkState.DETACHED,
    (LinkState.DETACH_SENT, LinkMove.DETACH_RECEIVED): LinkState.DETACHED,
    **{(state, LinkMove.SESSION_GONE): LinkState.DETACHED for state in LinkState},
}

_OURS = frozenset((ConnectionMove.CLOSE_SENT, SessionMove.END_SENT, LinkMove.ATTACH_SENT, LinkMove.DETACH_SENT))

_State = TypeVar("_State", bound=Enum)
_Move = TypeVar("_Move", bound=Enum)


def move(table: Mapping[tuple[_State, _Move], _State], state: _State, happened: _Move) -> _State:
    """The next state; a move the table does not have is an error of whoever made it."""
    try:
        return table[state, happened]
    except KeyError:
        pass
    if happened in _OURS:
        raise LocalProtocolError(f"{happened.value}, which is not allowed when {state.value}")
    raise RemoteProtocolError(f"the peer {happened.value}, which is not allowed when {state.value}", ILLEGAL_STATE)
