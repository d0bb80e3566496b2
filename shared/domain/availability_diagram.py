"""The picture of the transition table: the same rows, as a Mermaid state diagram."""

from __future__ import annotations

from collections.abc import Iterator

from shared.domain.availability import TRANSITIONS, Available, Suspect, Unavailable, always

_ENTERS = {
    "become_available": Available,
    "become_suspect": Suspect,
    "become_unavailable": Unavailable,
    "become_healed": Unavailable,
}


def mermaid() -> str:
    return "\n".join(["stateDiagram-v2", "    [*] --> Available", *_arrows()])


def _arrows() -> Iterator[str]:
    for (state, event), outcomes in TRANSITIONS.items():
        for outcome in outcomes:
            entered = _ENTERS[outcome.enter.__name__]
            condition = "" if outcome.guard is always else f" [{outcome.guard.__doc__}]"
            yield f"    {state.__name__} --> {entered.__name__}: {event.value}{condition}"


def page() -> str:
    """docs/availability.md as a whole."""
    meanings = "\n".join(f"- **{state.__name__}**: {state.__doc__}" for state in (Available, Suspect, Unavailable))
    return f"""# Availability of an entity

Every queue or topic of the primary that messages are sent to is in one of three states. They are kept per entity:
one that fails leaves the others alone. This page is drawn from `shared/domain/availability.py`; after a change there,
call `python scripts/draw_availability.py`.

{meanings}

```mermaid
{mermaid()}
```

What is not drawn changes nothing: while an entity is unavailable, no send reaches the primary, so no send can succeed
or fail there. Suspicion belongs to one instance of the app; unavailable and available again are shared by all of them.
A key of a partitioned entity whose partition is sick goes through the same states on its own, with one step more before
it is available: what waits of it goes home first. Which failures count is listed in `shared/domain/failures.py`.
"""
