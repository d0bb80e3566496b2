"""From a link's address to what the broker does with the link: the entity, the kind of link, the right it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .amqp.link import Link
from .amqp.performatives import Coordinator
from .auth import Right
from .coordinator import CoordinatorLink
from .entities import Receivable, Subscription
from .errors import NOT_ALLOWED, BrokerError
from .intake import Intake
from .link_user import LinkUser
from .management import Node
from .namespace import Address
from .nodes import CBS, CbsRequests, ManagementRequests, ReplyLink
from .outlet import Outlet

if TYPE_CHECKING:
    from .peer import Peer


def user_for(peer: Peer, link: Link, path: str) -> LinkUser:
    """BrokerError when there is nothing at the path, or the client may not attach to it."""
    if isinstance(link.target, Coordinator):
        return CoordinatorLink(peer, link, path)
    if not path:
        raise BrokerError(NOT_ALLOWED, "A link needs the address of an entity.")
    if path.lower() == CBS:
        return ReplyLink(peer, link, path) if link.is_sender else CbsRequests(peer, link, path)
    address = peer.namespace.resolve(path)
    if address.is_management:
        peer.tokens.require_any(path)
        if link.is_sender:
            return ReplyLink(peer, link, path)
        return ManagementRequests(peer, link, path, Node(namespace=peer.namespace, address=address))
    return _receiver(peer, link, path, address) if link.is_sender else _sender(peer, link, path, address)


def _sender(peer: Peer, link: Link, path: str, address: Address) -> Intake:
    entity = address.entity
    peer.tokens.require(path, Right.SEND)
    if isinstance(entity, Subscription) or (address.queue is not None and address.queue.key != entity.path):
        raise BrokerError(NOT_ALLOWED, f"'{path}' cannot be sent to.")
    return Intake(peer, link, path, entity)


def _receiver(peer: Peer, link: Link, path: str, address: Address) -> Outlet:
    peer.tokens.require(path, Right.LISTEN)
    if not isinstance(address.entity, Receivable) or address.queue is None:
        raise BrokerError(NOT_ALLOWED, f"'{path}' is a topic: receive from its subscriptions.")
    return Outlet(peer, link, path, address.entity, address.queue)
