"""Links over the azure-servicebus SDK: one client and one sender each, never shared, never used concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from azure.servicebus import ServiceBusMessageBatch, TransportType
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from shared.adapters.sdk_batches import Batch, is_traced, measure, native, transfer
from shared.adapters.sdk_failures import classify, detail_of
from shared.connections import NamespaceConnection
from shared.domain.failures import Failure
from shared.domain.message import Outgoing
from shared.domain.pair import EntityPath, Side
from shared.ports import Packed, SendFailed

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

# Retrying is ours: the SDK's own would hold a caller beyond the deadline (retry_total 3 takes 11 s at least).
_NO_SDK_RETRIES = 0
# A batch travels with a copy of its first message's ids, which the SDK does not count.
_BATCH_HEADROOM_BYTES = 1024

# Without an answer from the service nobody knows whether the message arrived.
_INDEFINITE = (Failure.CONNECTION, Failure.TIMEOUT, Failure.SERVICE_ERROR)


class SdkLink:
    def __init__(self, client: ServiceBusClient, path: EntityPath) -> None:
        self._path = path
        self._client = client
        # A sender to a topic and one to a queue are the same thing on the wire.
        self._sender: ServiceBusSender = self._client.get_queue_sender(str(path))
        self._transfer: Callable[[Any], Awaitable[None]] = (
            self._sender.send_messages if is_traced() else partial(transfer, self._sender)
        )
        self._batch_bytes_max: int | None = None

    async def open(self) -> None:
        if self._batch_bytes_max is not None:
            return
        try:
            batch = await self._sender.create_message_batch()
        except Exception as error:
            raise _failed(error, indefinite=False) from error
        self._batch_bytes_max = batch.max_size_in_bytes

    async def pack(self, parcels: Sequence[Sequence[Outgoing]]) -> Packed:
        if self._batch_bytes_max is None:
            await self.open()
        if len(parcels) == 1 and len(parcels[0]) == 1:
            return self._pack_single(parcels[0][0])
        batch = Batch(await self._sender.create_message_batch(self._batch_limit))
        refused: dict[int, SendFailed] = {}
        taken = 0
        for index, parcel in enumerate(parcels):
            try:
                if not batch.add(parcel):
                    break
            except Exception as error:
                refused[index] = _failed(error, indefinite=False)
            taken += 1
        if taken == 0:
            return self._pack_oversized(parcels[0])
        return Packed(taken=taken, refused=refused, load=batch.load)

    def _pack_single(self, message: Outgoing) -> Packed:
        try:
            return Packed(taken=1, refused={}, load=native(message))
        except Exception as error:
            return Packed(taken=1, refused={0: _failed(error, indefinite=False)}, load=None)

    @property
    def _batch_limit(self) -> int:
        assert self._batch_bytes_max is not None
        return self._batch_bytes_max - _BATCH_HEADROOM_BYTES

    def _pack_oversized(self, parcel: Sequence[Outgoing]) -> Packed:
        """A single message may be larger than a batch; whether it is too large is the service's word."""
        if len(parcel) == 1:
            return self._pack_single(parcel[0])
        limit = self._batch_limit
        over = measure([native(message) for message in parcel]) - limit
        detail = f"{len(parcel)} messages in one batch are {over} bytes over the limit of {limit} bytes"
        return Packed(taken=1, refused={0: SendFailed(Failure.MESSAGE_TOO_LARGE, detail, bytes_over=over)}, load=None)

    async def send(self, packed: Packed) -> None:
        if packed.load is None:
            return
        try:
            await self._transfer(packed.load)
        except Exception as error:
            raise self._send_failed(error, packed.load) from error

    async def send_one(self, message: Outgoing) -> None:
        if self._batch_bytes_max is None:
            await self.open()
        try:
            load = native(message)
        except Exception as error:
            raise _failed(error, indefinite=False) from error
        try:
            await self._transfer(load)
        except Exception as error:
            raise self._send_failed(error, load) from error

    def _send_failed(self, error: Exception, load: object) -> SendFailed:
        failed = _failed(error, indefinite=classify(error) in _INDEFINITE)
        if failed.failure is not Failure.MESSAGE_TOO_LARGE:
            return failed
        limit = self._batch_bytes_max or 0
        size = load.size_in_bytes if isinstance(load, ServiceBusMessageBatch) else measure([load])
        over = max(size - limit, 1)
        detail = f"the message has {size} bytes, {over} more than the limit of {limit}"
        return SendFailed(Failure.MESSAGE_TOO_LARGE, detail, bytes_over=over)

    async def close(self) -> None:
        await self._sender.close()
        await self._client.close()


class SdkLinks:
    """Links to either namespace of the pair."""

    def __init__(
        self,
        connections: Mapping[Side, NamespaceConnection],
        credentials: Mapping[Side, AsyncTokenCredential | None],
        authority_file: str | None = None,
    ) -> None:
        self._connections = connections
        self._credentials = credentials
        self._authority_file = authority_file

    def to(self, side: Side, path: EntityPath) -> SdkLink:
        return SdkLink(sdk_client(self._connections[side], self._credentials[side], self._authority_file), path)


def sdk_client(
    connection: NamespaceConnection, credential: AsyncTokenCredential | None, authority_file: str | None = None
) -> ServiceBusClient:
    """`authority_file`: certificates to trust instead of those the SDK brings along, which ignores SSL_CERT_FILE."""
    options: dict[str, Any] = {"retry_total": _NO_SDK_RETRIES, "connection_verify": authority_file}
    if connection.connection_string is not None:
        return ServiceBusClient.from_connection_string(connection.connection_string.reveal(), **options)
    if credential is None:
        raise ValueError(f"{connection.setting} connects by identity, which needs a credential")
    if connection.port is not None:
        # With TLS the SDK ignores a port in the address, and by itself speaks WebSocket to a custom endpoint.
        options |= {"custom_endpoint_address": f"sb://{connection.address}", "transport_type": TransportType.Amqp}
    return ServiceBusClient(connection.host, credential, **options)


def _failed(error: Exception, *, indefinite: bool) -> SendFailed:
    if isinstance(error, SendFailed):
        return error
    if isinstance(error, asyncio.CancelledError):
        raise error
    return SendFailed(classify(error), detail_of(error), indefinite=indefinite)
