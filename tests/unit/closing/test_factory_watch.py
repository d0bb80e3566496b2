"""The app faults a side by itself: only when it is proven, and never for what another side or entity did."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.domain.failures import Failure
from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath, Side
from shared.domain.proofs import PROOFS_APART, PROOFS_NEEDED, Proof, proof_of
from shared.ports import Packed, SendFailed
from shared.services.closing import Changed
from shared.services.factory_watch import WatchedLinks
from tests.support.closing import ClosingParts
from tests.support.send_fakes import letter

ORDERS, OTHERS = EntityPath("orders"), EntityPath("others")
REFUSED = SendFailed(Failure.UNAUTHORIZED, "401: InvalidSignature")
GONE = SendFailed(Failure.NAMESPACE_NOT_FOUND, "[Errno -2] Name or service not known")
EMPTY = Packed(taken=0, refused={}, load=None)


class ScriptedLink:
    """Raises what the test says, at every call that speaks to the service."""

    def __init__(self) -> None:
        self.failure: SendFailed | None = None

    async def open(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def pack(self, parcels: Sequence[Sequence[Outgoing]]) -> Packed:
        await self.open()
        return EMPTY

    async def send(self, packed: Packed) -> None:
        await self.open()

    async def send_one(self, message: Outgoing) -> None:
        await self.open()

    async def close(self) -> None:
        """Nothing is held."""


class Scripted:
    def __init__(self, parts: ClosingParts) -> None:
        self.parts = parts
        self.links = {side: ScriptedLink() for side in Side}
        self.watched = WatchedLinks(self, parts.watch)

    def to(self, side: Side, path: EntityPath) -> ScriptedLink:
        return self.links[side]

    async def send(self, failure: SendFailed | None, side: Side = Side.PRIMARY, path: EntityPath = ORDERS) -> None:
        self.links[side].failure = failure
        learned: SendFailed | None = None
        try:
            await self.watched.to(side, path).send(EMPTY)
        except SendFailed as failed:
            learned = failed
        assert learned is failure, "whoever sends learns of the failure as it was"
        await self.parts.watch.settled()


@pytest.fixture
def namespaces(parts: ClosingParts) -> Scripted:
    return Scripted(parts)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("failure", [REFUSED, GONE])
async def test_a_side_is_faulted_by_the_last_proof_needed_and_not_before(
    parts: ClosingParts, namespaces: Scripted, side: Side, failure: SendFailed
) -> None:
    kind = proof_of(failure.failure)
    assert kind is not None
    for _ in range(PROOFS_NEEDED - 1):
        await namespaces.send(failure, side)
        parts.clock.advance(PROOFS_APART[kind].total_seconds())
    assert ("open", "open") == await parts.states()
    await namespaces.send(failure, side)
    factory = parts.store.both.of(side)
    assert ("faulted", "the app itself") == (factory.state.value, factory.by)
    assert f"{kind.value}, proven {PROOFS_NEEDED} times in a row: {failure.detail}" == factory.reason
    assert parts.store.both.of(side.partner).is_open, "the partner is the coordination's"


@pytest.mark.parametrize("call", ["open", "pack", "send", "send_one"])
async def test_every_call_to_a_namespace_is_watched(parts: ClosingParts, namespaces: Scripted, call: str) -> None:
    namespaces.links[Side.PRIMARY].failure = REFUSED
    link = namespaces.watched.to(Side.PRIMARY, ORDERS)
    calls = {
        "open": link.open,
        "pack": lambda: link.pack([]),
        "send": lambda: link.send(EMPTY),
        "send_one": lambda: link.send_one(letter("m-1")),
    }
    for _ in range(PROOFS_NEEDED):
        with pytest.raises(SendFailed):
            await calls[call]()
        parts.clock.advance(1)
    await parts.watch.settled()
    assert ("faulted", "open") == await parts.states()


async def test_a_burst_is_one_proof(parts: ClosingParts, namespaces: Scripted) -> None:
    for _ in range(PROOFS_NEEDED * 10):
        await namespaces.send(REFUSED)
        parts.clock.advance(0.01)
    assert ("open", "open") == await parts.states()


async def test_one_accepted_message_refutes_all_proofs_before_it(parts: ClosingParts, namespaces: Scripted) -> None:
    for failure in [*[REFUSED] * (PROOFS_NEEDED - 1), None, *[REFUSED] * (PROOFS_NEEDED - 1)]:
        await namespaces.send(failure)
        parts.clock.advance(1)
    assert ("open", "open") == await parts.states()
    await namespaces.send(REFUSED)
    assert ("faulted", "open") == await parts.states()


async def test_the_other_sides_health_refutes_nothing(parts: ClosingParts, namespaces: Scripted) -> None:
    for _ in range(PROOFS_NEEDED):
        await namespaces.send(REFUSED)
        await namespaces.send(None, Side.SECONDARY)
        parts.clock.advance(1)
    assert ("faulted", "open") == await parts.states()


@pytest.mark.parametrize("failure", [kind for kind in Failure if proof_of(kind) is None])
async def test_no_other_failure_proves_anything(parts: ClosingParts, namespaces: Scripted, failure: Failure) -> None:
    """An outage, however long, is what the pair is for."""
    for _ in range(PROOFS_NEEDED * 2):
        await namespaces.send(SendFailed(failure, "an outage"))
        parts.clock.advance(60)
    assert ("open", "open") == await parts.states()


async def test_an_entity_that_was_never_this_apps_to_send_to_proves_nothing(
    parts: ClosingParts, namespaces: Scripted
) -> None:
    """Otherwise whoever may send could stop the pair by naming a queue the app has no rights to."""
    parts.state.succeeded(OTHERS)
    for _ in range(PROOFS_NEEDED * 2):
        await namespaces.send(REFUSED, path=ORDERS)
        parts.clock.advance(1)
    assert ("open", "open") == await parts.states()
    for _ in range(PROOFS_NEEDED):
        await namespaces.send(REFUSED, path=OTHERS)
        parts.clock.advance(1)
    assert ("faulted", "open") == await parts.states()


async def test_names_that_cannot_be_resolved_for_a_moment_are_an_outage(
    parts: ClosingParts, namespaces: Scripted
) -> None:
    for _ in range(200):
        await namespaces.send(GONE)
        parts.clock.advance(1)
    assert ("open", "open") == await parts.states()
    assert PROOFS_APART[Proof.NAMESPACE_GONE].total_seconds() * (PROOFS_NEEDED - 1) > 200


async def test_the_partner_is_looked_after_at_once_where_that_is_possible(
    parts: ClosingParts, namespaces: Scripted
) -> None:
    told: list[list[Side]] = []

    async def tell(changed: Changed) -> None:
        told.append(changed.sides)

    parts.watch.on_fault = tell
    for _ in range(PROOFS_NEEDED):
        await namespaces.send(REFUSED)
        parts.clock.advance(1)
    assert [[Side.PRIMARY]] == told


async def test_a_side_that_could_not_be_faulted_is_faulted_by_later_proofs(
    parts: ClosingParts, namespaces: Scripted
) -> None:
    parts.store.broken = True
    for _ in range(PROOFS_NEEDED):
        await namespaces.send(REFUSED)
        parts.clock.advance(1)
    parts.store.broken = False
    assert ("open", "open") == await parts.states()
    for _ in range(PROOFS_NEEDED):
        await namespaces.send(REFUSED)
        parts.clock.advance(1)
    assert ("faulted", "open") == await parts.states()


async def test_a_side_that_is_down_is_not_faulted_again(parts: ClosingParts, namespaces: Scripted) -> None:
    await parts.closing.close(Side.PRIMARY, reason="maintenance", by="ann")
    for _ in range(PROOFS_NEEDED):
        await namespaces.send(REFUSED)
        parts.clock.advance(1)
    assert ("closed", "open") == await parts.states()
