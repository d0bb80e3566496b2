"""Queues of the secondary and entities of the primary, over the administration API of the SDK."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from shared.connections import NamespaceConnection
from shared.domain.backlog import BacklogQueueDescription, differences
from shared.domain.pair import EntityPath
from shared.domain.partitions import Traits
from shared.ports import AdminFailed, AdminRefused, QueueDepth, QueueFacts

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

REQUEST_SECONDS_MAX = 20
_RETRIES = 1
_FORBIDDEN = (401, 403)


class Administration:
    """One namespace. `authority_file` is a certificate to trust besides the usual ones, for a broker of one's own."""

    def __init__(
        self,
        connection: NamespaceConnection,
        credential: AsyncTokenCredential | None = None,
        *,
        authority_file: str | None = None,
    ) -> None:
        options: dict[str, Any] = {"retry_total": _RETRIES, "connection_timeout": REQUEST_SECONDS_MAX}
        if authority_file:
            options["connection_verify"] = authority_file
        if connection.connection_string is not None:
            text = connection.connection_string.reveal()
            self._client = ServiceBusAdministrationClient.from_connection_string(text, **options)
        elif credential is not None:
            self._client = ServiceBusAdministrationClient(connection.address, credential, **options)
        else:
            raise ValueError(f"{connection.setting} connects by identity, which needs a credential")

    async def find(self, path: EntityPath) -> QueueFacts | None:
        try:
            found = await self._client.get_queue(str(path))
        except ResourceNotFoundError:
            return None
        except AzureError as error:
            raise _refused_or_failed(error) from error
        return _facts(path, found)

    async def create(self, path: EntityPath, description: BacklogQueueDescription) -> QueueFacts:
        try:
            return _facts(path, await self._client.create_queue(str(path), **asdict(description)))
        except ResourceExistsError:
            found = await self.find(path)
            return found if found is not None else QueueFacts(path=path)
        except AzureError as error:
            raise _refused_or_failed(error) from error

    async def depth(self, path: EntityPath) -> QueueDepth:
        try:
            found = await self._client.get_queue_runtime_properties(str(path))
        except AzureError as error:
            raise _refused_or_failed(error) from error
        return QueueDepth(
            active=found.active_message_count or 0,
            dead_lettered=found.dead_letter_message_count or 0,
            scheduled=found.scheduled_message_count or 0,
        )

    async def traits(self, path: EntityPath) -> Traits | None:
        for look in (self._client.get_queue, self._client.get_topic):
            try:
                found: Any = await look(str(path))
            except ResourceNotFoundError:
                continue
            except AzureError as error:
                raise _refused_or_failed(error) from error
            except AttributeError:
                continue  # the SDK stumbles over an entity of the other kind
            return Traits(
                partitioned=bool(found.enable_partitioning),
                detects_duplicates=bool(found.requires_duplicate_detection),
            )
        return None

    async def close(self) -> None:
        await self._client.close()


def _facts(path: EntityPath, found: Any) -> QueueFacts:
    wanted = asdict(BacklogQueueDescription())
    return QueueFacts(
        path=path,
        differences=differences({name: getattr(found, name) for name in wanted}),
        is_partitioned=bool(found.enable_partitioning),
    )


def _refused_or_failed(error: AzureError) -> AdminRefused | AdminFailed:
    text = str(error).partition("\n")[0][:300] or type(error).__name__
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if isinstance(error, ClientAuthenticationError) or status in _FORBIDDEN:
        return AdminRefused(text)
    return AdminFailed(text)
