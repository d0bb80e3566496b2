"""When a connection must speak, and when its silence is too long (part 2, section 2.4.5). Time comes in with tick."""

from __future__ import annotations

from typing import NamedTuple

from local.broker.amqp.states import ConnectionState

#: Shortest interval between heartbeats, in seconds, however impatient the peer.
_MIN_HEARTBEAT_SECONDS = 0.05
#: The standard asks to announce half of the time after which silence is taken for death.
_SILENCE_FACTOR = 2


class Verdict(NamedTuple):
    expired: str | None = None
    heartbeat_due: bool = False
    next_call: float | None = None


class Timeouts:
    """What was heard and said is noted without a time; each tick dates it: heard as late, said as early, as possible.

    So a heartbeat may come too early but never too late, and a peer is never declared dead too early.
    """

    __slots__ = (
        "_close_seconds",
        "_closing_since",
        "_heard",
        "_heartbeat_seconds",
        "_last_heard",
        "_last_sent",
        "_last_tick",
        "_open_seconds",
        "_sent",
        "_silence_seconds",
        "_started",
    )

    def __init__(self, *, open_seconds: float, close_seconds: float, idle_timeout_ms: int | None) -> None:
        self._open_seconds = open_seconds
        self._close_seconds = close_seconds
        self._silence_seconds = _SILENCE_FACTOR * idle_timeout_ms / 1000 if idle_timeout_ms else None
        self._heartbeat_seconds: float | None = None
        self._heard = self._sent = False
        self._started: float | None = None
        self._closing_since: float | None = None
        self._last_tick = self._last_heard = self._last_sent = 0.0

    def on_received(self) -> None:
        self._heard = True

    def on_sent(self) -> None:
        self._sent = True

    def on_open(self, remote_idle_timeout_ms: int | None) -> None:
        if remote_idle_timeout_ms:
            self._heartbeat_seconds = max(remote_idle_timeout_ms / 2000, _MIN_HEARTBEAT_SECONDS)

    def tick(self, now: float, state: ConnectionState) -> Verdict:
        if state is ConnectionState.CLOSED:
            return Verdict()
        if self._started is None:
            self._started = self._last_tick = self._last_heard = self._last_sent = now
        if self._heard:
            self._last_heard, self._heard = now, False
        if self._sent:
            self._last_sent, self._sent = self._last_tick, False
        self._last_tick = now
        if state is ConnectionState.OPENED:
            return self._tick_open(now)
        if state is ConnectionState.CLOSE_SENT:
            if self._closing_since is None:
                self._closing_since = now
            return self._deadline(now, self._closing_since + self._close_seconds, "the peer did not answer close")
        return self._deadline(now, self._started + self._open_seconds, "the connection was not opened in time")

    def _deadline(self, now: float, deadline: float, expired: str) -> Verdict:
        return Verdict(expired=expired) if now >= deadline else Verdict(next_call=deadline)

    def _tick_open(self, now: float) -> Verdict:
        due: list[float] = []
        if self._silence_seconds is not None:
            deadline = self._last_heard + self._silence_seconds
            if now >= deadline:
                return Verdict(expired=f"nothing was heard for {self._silence_seconds:g} seconds")
            due.append(deadline)
        heartbeat_due = False
        if self._heartbeat_seconds is not None:
            heartbeat_due = now >= self._last_sent + self._heartbeat_seconds
            if heartbeat_due:
                self._last_sent = now
            due.append(self._last_sent + self._heartbeat_seconds)
        return Verdict(heartbeat_due=heartbeat_due, next_call=min(due) if due else None)
