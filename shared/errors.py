"""Every error this app raises on purpose.

PairingError
├── ConfigurationError      settings that cannot be used, all of them at once
├── SendError
│   ├── PrimaryFailed       the primary failed and failover is not engaged (yet)
│   ├── BacklogExhausted    no backlog queue took the message
│   ├── Overloaded          too many messages are waiting to be sent already
│   ├── Misconfigured       a namespace refused the app's own credentials
│   ├── MessageTooLarge     the message fits nowhere, or not into the backlog
│   └── Rejected            the message or its destination is the caller's mistake
│       └── EntityNotFound  there is no such queue or topic
├── PairingFailed           backlog queues could not be created
├── EnvelopeError           a backlog message whose transfer properties make no sense
├── NothingMoved            a backlog message could not be moved for now and goes back to its queue
├── PairClosed              the pair was closed by an operator
├── PairFaulted             the pair was faulted
├── StateConflict           shared state kept changing under a writer
└── StateUnreachable        shared state could not be read or written, and nothing was changed

A class's docstring is the message of an error raised without one, so that documentation and text cannot drift.
A detour to the backlog is a result, never an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass


class PairingError(Exception):
    """The pair of namespaces cannot do what was asked."""

    def __init__(self, message: str | None = None, *, pair: str | None = None, path: str | None = None) -> None:
        self.message = message or inspect.cleandoc(type(self).__doc__ or type(self).__name__)
        self.pair = pair
        self.path = path
        super().__init__(self.message)

    def __str__(self) -> str:
        where = [f"pair {self.pair}"] if self.pair else []
        where += [f"entity {self.path}"] if self.path else []
        return f"{self.message} ({', '.join(where)})" if where else self.message


@dataclass(frozen=True, kw_only=True)
class SettingProblem:
    """One thing that is wrong with one app setting; its text fits one line and never holds a secret."""

    setting: str
    problem: str
    example: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.problem}; example: {self.example}"


class ConfigurationError(PairingError):
    """The app settings cannot be used."""

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SendError(PairingError):
    """The message was not accepted."""

    def __init__(
        self,
        message: str | None = None,
        *,
        pair: str | None = None,
        path: str | None = None,
        indefinite: bool = False,
    ) -> None:
        super().__init__(message, pair=pair, path=path)
        #: The message may have arrived all the same; sent again, it may arrive twice with the same id.
        self.indefinite = indefinite


class PrimaryFailed(SendError):
    """The primary namespace failed and failover is not engaged; send again later."""


class BacklogExhausted(SendError):
    """The primary is unavailable and no backlog queue accepted the message; send again later."""


class Overloaded(SendError):
    """Too many messages are waiting to be sent already; send again later."""


class Misconfigured(SendError):
    """A namespace refused the app's credentials; an operator has to correct the connection or its rights."""


class MessageTooLarge(SendError):
    """The message is larger than its destination accepts."""


class Rejected(SendError):
    """The message or its destination is not valid; sending it again unchanged will fail again."""


class EntityNotFound(Rejected):
    """The primary namespace has no queue or topic of this path."""


class PairingFailed(PairingError):
    """No backlog queue could be created in the secondary namespace."""


class EnvelopeError(PairingError):
    """The backlog message lacks a transfer property or holds one of the wrong type."""


class NothingMoved(PairingError):
    """The backlog message could not be moved for now and goes back to its queue."""


class PairClosed(PairingError):
    """The pair is closed; open it before sending."""


class PairFaulted(PairingError):
    """The pair is faulted; find the reason in its state, then open it."""


class StateConflict(PairingError):
    """The shared state changed at every attempt to update it."""


class StateUnreachable(PairingError):
    """Shared state cannot be reached, so nothing was changed; try again."""
