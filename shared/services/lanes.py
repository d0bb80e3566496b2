"""All lanes of this instance: one for each entity of either namespace that messages were sent to lately."""

from __future__ import annotations

from collections import OrderedDict

from shared.domain.pair import EntityPath, Side
from shared.ports import Links
from shared.services.lane import Lane
from shared.services.retired import Retired

#: Lanes, and so connections, kept at a time; the one unused for longest makes room.
LANES_MAX = 500


class Lanes:
    def __init__(self, links: Links, *, backlog_is_partitioned: bool = False) -> None:
        self._links = links
        self._mixes_backlog_keys = not backlog_is_partitioned
        self._retired = Retired()
        self._lanes: OrderedDict[tuple[Side, str], Lane] = OrderedDict()

    def to(self, side: Side, path: EntityPath) -> Lane:
        # The service does not tell `Orders` from `orders`.
        key = (side, path.lower())
        lane = self._lanes.get(key)
        if lane is None:
            self._make_room()
            # Of the primary's entities nobody knows until told whether they are partitioned.
            mixes_keys = side is Side.SECONDARY and self._mixes_backlog_keys
            lane = Lane(lambda: self._links.to(side, path), self._retired, mixes_keys=mixes_keys)
            self._lanes[key] = lane
        else:
            self._lanes.move_to_end(key)
        return lane

    def find(self, side: Side, path: EntityPath) -> Lane | None:
        return self._lanes.get((side, path.lower()))

    def drop(self, side: Side, path: EntityPath) -> None:
        """Forgets the lane of an entity that does not exist, unless somebody is waiting there."""
        lane = self.find(side, path)
        if lane is not None and lane.is_idle:
            del self._lanes[side, path.lower()]
            lane.close()

    def _make_room(self) -> None:
        if len(self._lanes) < LANES_MAX:
            return
        for key, lane in self._lanes.items():
            if lane.is_idle:
                del self._lanes[key]
                lane.close()
                return

    async def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        await self._retired.settled()
