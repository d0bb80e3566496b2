"""All lanes of this instance: one for each entity of either namespace that messages were sent to lately."""

from __future__ import annotations

from collections import OrderedDict

from shared.domain.pair import EntityPath, Side
from shared.ports import Links
from shared.services.lane import Lane
from shared.services.retired import Retired

#: Lanes, and so connections, kept at a time; the one unused for longest makes room.
LANES_MAX = 500
_PRIMARY = Side.PRIMARY
#: Before the names of the secondary's entities; no path begins with it.
_SECONDARY_MARK = "/"


class Lanes:
    def __init__(self, links: Links, *, backlog_is_partitioned: bool = False) -> None:
        self._links = links
        self._mixes_backlog_keys = not backlog_is_partitioned
        self._retired = Retired()
        self._lanes: OrderedDict[str, Lane] = OrderedDict()

    def to(self, side: Side, path: EntityPath) -> Lane:
        name = path.lower() if side is _PRIMARY else _SECONDARY_MARK + path.lower()
        lane = self._lanes.get(name)
        if lane is None:
            self._make_room()
            # Of the primary's entities nobody knows until told whether they are partitioned.
            mixes_keys = side is Side.SECONDARY and self._mixes_backlog_keys
            lane = Lane(lambda: self._links.to(side, path), self._retired, mixes_keys=mixes_keys)
            self._lanes[name] = lane
        else:
            self._lanes.move_to_end(name)
        return lane

    def find(self, side: Side, path: EntityPath) -> Lane | None:
        return self._lanes.get(_name(side, path))

    def drop(self, side: Side, path: EntityPath) -> None:
        """Forgets the lane of an entity that does not exist, unless somebody is waiting there."""
        lane = self.find(side, path)
        if lane is not None and lane.is_idle:
            del self._lanes[_name(side, path)]
            lane.close()

    def _make_room(self) -> None:
        if len(self._lanes) < LANES_MAX:
            return
        for name, lane in self._lanes.items():
            if lane.is_idle:
                del self._lanes[name]
                lane.close()
                return

    async def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        await self._retired.settled()


def _name(side: Side, path: EntityPath) -> str:
    """Text, since it is looked up for every send. The service does not tell `Orders` from `orders`."""
    return path.lower() if side is _PRIMARY else _SECONDARY_MARK + path.lower()
