"""Table Storage for what the host must remember: timer status, leases, durable instances."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from azure.core.exceptions import ResourceExistsError
from azure.data.tables.aio import TableClient, TableServiceClient

from local.host.errors import ConfigurationError, one_line

SETTING = "AzureWebJobsStorage"
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 15
RETRIES = 2

# Microsoft publishes this account and key for the storage emulator; they protect nothing.
DEVELOPMENT_ACCOUNT = "devstoreaccount1"
DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True, kw_only=True)
class StorageAddress:
    """How to reach Table Storage: a connection string, or an endpoint with an identity."""

    connection_string: str | None = field(default=None, repr=False)
    table_endpoint: str | None = None
    client_id: str | None = None


def development_connection_string(blob_port: int = 10000, queue_port: int = 10001, table_port: int = 10002) -> str:
    """The emulator's connection string, with other ports if need be."""
    base = f"http://127.0.0.1:{{}}/{DEVELOPMENT_ACCOUNT}"
    return (
        f"DefaultEndpointsProtocol=http;AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};"
        f"BlobEndpoint={base.format(blob_port)};QueueEndpoint={base.format(queue_port)};"
        f"TableEndpoint={base.format(table_port)};"
    )


def development_addresses(*, blob: int, queue: int, table: int) -> dict[str, str]:
    """Settings that lead to the emulator by identity: it takes tokens over HTTPS only."""
    ports = {"blob": blob, "queue": queue, "table": table}
    return {
        f"{SETTING}__{kind}ServiceUri": f"https://127.0.0.1:{port}/{DEVELOPMENT_ACCOUNT}"
        for kind, port in ports.items()
    }


def find_storage(settings: Mapping[str, str]) -> StorageAddress | None:
    """AzureWebJobsStorage as a string or by identity; None when nothing is set."""
    text = settings.get(SETTING, "").strip()
    if text:
        if text.lower().rstrip(";") == "usedevelopmentstorage=true":
            text = development_connection_string()
        if "=" not in text:
            raise ConfigurationError(f"{SETTING} is not a connection string; Azurite's is UseDevelopmentStorage=true")
        return StorageAddress(connection_string=text)
    client_id = settings.get(f"{SETTING}__clientId") or None
    if endpoint := settings.get(f"{SETTING}__tableServiceUri"):
        return StorageAddress(table_endpoint=endpoint, client_id=client_id)
    if account := settings.get(f"{SETTING}__accountName"):
        return StorageAddress(table_endpoint=f"https://{account}.table.core.windows.net", client_id=client_id)
    return None


class StorageTrouble:
    """Says once that storage cannot be reached, and once that it can again."""

    def __init__(self, log: logging.Logger, who: str) -> None:
        self._log = log
        self._who = who
        self._told = False

    def trouble(self, error: Exception) -> None:
        if not self._told:
            self._log.warning("%s cannot reach storage and waits for it: %s", self._who, one_line(error, 200))
        self._told = True

    def well(self) -> None:
        if self._told:
            self._log.info("%s reaches storage again", self._who)
        self._told = False


class Storage:
    """One connection pool to Table Storage."""

    def __init__(self, address: StorageAddress) -> None:
        options: dict[str, Any] = {
            "connection_timeout": CONNECT_TIMEOUT_S,
            "read_timeout": READ_TIMEOUT_S,
            "retry_total": RETRIES,
            "retry_backoff_factor": 0.2,
        }
        self._credential: Any = None
        if address.connection_string is not None:
            try:
                self._service = TableServiceClient.from_connection_string(address.connection_string, **options)
            except ValueError as error:
                raise ConfigurationError(f"{SETTING} is not a usable connection string: {error}") from None
        else:
            from azure.identity.aio import DefaultAzureCredential

            self._credential = DefaultAzureCredential(managed_identity_client_id=address.client_id)
            self._service = TableServiceClient(
                endpoint=address.table_endpoint or "", credential=self._credential, **options
            )

    @property
    def endpoint(self) -> str:
        """Where the tables are, without any secret."""
        return str(self._service.url)

    async def table(self, name: str) -> TableClient:
        """A table, made if it is missing."""
        try:
            return await self._service.create_table(name)
        except ResourceExistsError:
            return self._service.get_table_client(name)

    async def close(self) -> None:
        await self._service.close()
        if self._credential is not None:
            await self._credential.close()
