"""What one peer may make the engine hold."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds of one connection. A buffered partial frame is bounded by the connection's max_frame_size."""

    #: Largest assembled delivery, in octets. Beyond it the link is detached; below it the broker judges the message,
    #: because clients learn the reason for a refused send only from a rejected delivery.
    max_message_size: int = 110 * _MIB
    #: All unfinished multi-frame deliveries together, in octets.
    max_partial_bytes: int = 220 * _MIB
    #: Links per session (handle-max + 1).
    max_handles: int = 1_024
    #: Sessions at once; the smaller of this and channel_max + 1 counts.
    max_sessions: int = 256
    #: Our deliveries a session remembers until they are settled; the oldest is forgotten first. Clients prefetch at
    #: most 50,000.
    max_unsettled: int = 100_000
    #: Octets of transfers waiting for the peer's session window; while more wait, the links show no credit.
    max_backlog_bytes: int = 16 * _MIB
    #: Transfer frames we let the peer send before it must see a flow from us.
    incoming_window: int = 5_000
    #: Deliveries beyond the granted credit before the link is detached. The Python client refills its own credit
    #: (10,000) when it believes that it has none left.
    credit_overrun: int = 10_000
    #: Seconds from the first tick until the connection must be open.
    open_seconds: float = 60.0
    #: Seconds to wait for the peer's close after ours.
    close_seconds: float = 10.0
