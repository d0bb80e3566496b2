"""When the app itself faults a side: its credentials are refused, or its namespace is gone, proven several times.

A fault stops the whole pair, so one failure proves nothing. What counts are proofs of one kind in a row, some time
apart, with nothing accepted by that side in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from shared.domain.failures import Failure


class Proof(Enum):
    CREDENTIALS_REFUSED = "the namespace refuses the app's credentials"
    NAMESPACE_GONE = "the namespace's name does not exist any more"


#: Proofs in a row that fault a side.
PROOFS_NEEDED = 5
#: Proofs closer together than this are one: a burst of sends is refused for one and the same reason.
PROOFS_APART: Mapping[Proof, timedelta] = {
    Proof.CREDENTIALS_REFUSED: timedelta(seconds=1),
    # Trouble with name resolution looks the same and is an outage, in which messages are diverted, not refused.
    Proof.NAMESPACE_GONE: timedelta(minutes=1),
}
_PROOF_OF = {
    Failure.UNAUTHORIZED: Proof.CREDENTIALS_REFUSED,
    Failure.NAMESPACE_NOT_FOUND: Proof.NAMESPACE_GONE,
}


@dataclass(frozen=True, kw_only=True)
class Proofs:
    """Proofs of one kind about one side, none of them contradicted."""

    kind: Proof
    count: int
    last_at: datetime

    @property
    def suffice(self) -> bool:
        return self.count >= PROOFS_NEEDED


def proof_of(failure: Failure) -> Proof | None:
    return _PROOF_OF.get(failure)


def after_proof(known: Proofs | None, kind: Proof, now: datetime) -> Proofs:
    if known is None or known.kind is not kind:
        return Proofs(kind=kind, count=1, last_at=now)
    if now - known.last_at < PROOFS_APART[kind]:
        return known
    return replace(known, count=known.count + 1, last_at=now)
