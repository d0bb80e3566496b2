"""The connection to Table Storage, where the instances of the app share the pair's state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from shared.connections.reader import ConnectionReader, Secret, is_base64, is_host, is_web_address, join_parts
from shared.errors import ConfigurationError

STORAGE_SETTINGS = ("PairStateStorage", "AzureWebJobsStorage")
CONNECTION_STRING_EXAMPLE = "DefaultEndpointsProtocol=https;AccountName=contoso;AccountKey=<key>"
DEVELOPMENT_STORAGE = "UseDevelopmentStorage=true"
DEVELOPMENT_TABLE_ENDPOINT = "http://127.0.0.1:10002/devstoreaccount1"
# Blob, queue and file addresses are for the Functions host itself, which shares AzureWebJobsStorage with the app.
IDENTITY_PARTS = (
    "tableServiceUri",
    "accountName",
    "clientId",
    "credential",
    "blobServiceUri",
    "queueServiceUri",
    "fileServiceUri",
    "serviceUri",
)
_PARTS = (
    "DefaultEndpointsProtocol",
    "AccountName",
    "AccountKey",
    "SharedAccessSignature",
    "EndpointSuffix",
    "TableEndpoint",
    "BlobEndpoint",
    "QueueEndpoint",
    "FileEndpoint",
    "UseDevelopmentStorage",
)
_ACCOUNT_NAME = re.compile(r"[a-z0-9]{3,24}")


@dataclass(frozen=True, kw_only=True)
class StateStorage:
    """How to reach Table Storage: with a connection string, or, when that is None, with the app's identity."""

    setting: str
    table_endpoint: str
    #: Of the same account; None where identity-based settings tell neither it nor the account.
    blob_endpoint: str | None = None
    connection_string: Secret | None = None
    client_id: str | None = None


def read_state_storage(env: Mapping[str, str]) -> StateStorage:
    """PairStateStorage when any of its forms is set, otherwise the storage of the Functions host itself."""
    own, hosts = (ConnectionReader(env, setting, example=CONNECTION_STRING_EXAMPLE) for setting in STORAGE_SETTINGS)
    reader = own if own.text or own.identity else hosts
    if reader.text and reader.identity.keys() & {"tableServiceUri", "accountName"}:
        reader.wrong("a connection string and identity-based settings are both set; keep one of them")
    elif reader.text:
        return _from_string(reader)
    elif reader.identity:
        return _from_identity(reader)
    else:
        reader.wrong(f"not set; give a connection string, {DEVELOPMENT_STORAGE}, or {reader.setting}__tableServiceUri")
    raise ConfigurationError(reader.problems)


def _from_string(reader: ConnectionReader) -> StateStorage:
    parts = reader.split_parts(_PARTS)
    if "UseDevelopmentStorage" in parts:
        return _development_storage(reader, parts)
    _check_account(reader, parts)
    _check_addresses(reader, parts)
    reader.stop_if_wrong()
    protocol = parts.get("DefaultEndpointsProtocol", "https")
    suffix = parts.get("EndpointSuffix", "core.windows.net")
    endpoint = parts.get("TableEndpoint") or f"{protocol}://{parts['AccountName']}.table.{suffix}"
    return StateStorage(setting=reader.setting, table_endpoint=endpoint, connection_string=join_parts(parts))


def _development_storage(reader: ConnectionReader, parts: Mapping[str, str]) -> StateStorage:
    if len(parts) > 1 or parts["UseDevelopmentStorage"].lower() != "true":
        reader.wrong("UseDevelopmentStorage=true stands alone; for another address give AccountName and TableEndpoint")
    reader.stop_if_wrong()
    return StateStorage(
        setting=reader.setting,
        table_endpoint=DEVELOPMENT_TABLE_ENDPOINT,
        connection_string=Secret(DEVELOPMENT_STORAGE),
    )


def _check_account(reader: ConnectionReader, parts: Mapping[str, str]) -> None:
    if "AccountKey" in parts and "SharedAccessSignature" in parts:
        reader.wrong("an AccountKey and a SharedAccessSignature are both there; keep one of them")
    elif "AccountKey" not in parts and "SharedAccessSignature" not in parts:
        reader.wrong("the connection string has neither AccountKey nor SharedAccessSignature")
    if not is_base64(parts.get("AccountKey", "")):
        reader.wrong("its AccountKey is not base64")
    if "AccountName" not in parts and ("AccountKey" in parts or "TableEndpoint" not in parts):
        reader.wrong("the connection string has no AccountName")
    if parts.get("AccountName") and not _ACCOUNT_NAME.fullmatch(parts["AccountName"]):
        reader.wrong("its AccountName is not 3 to 24 lower-case letters and digits")


def _check_addresses(reader: ConnectionReader, parts: Mapping[str, str]) -> None:
    if parts.get("DefaultEndpointsProtocol") not in (None, "", "http", "https"):
        reader.wrong("its DefaultEndpointsProtocol is neither http nor https")
    if parts.get("EndpointSuffix") and not is_host(parts["EndpointSuffix"]):
        reader.wrong("its EndpointSuffix is not a host name")
    if parts.get("TableEndpoint") and not is_web_address(parts["TableEndpoint"]):
        reader.wrong("its TableEndpoint is not of the form https://host/ or http://host:port/account")


def _from_identity(reader: ConnectionReader) -> StateStorage:
    example = f"{reader.setting}__tableServiceUri=https://contoso.table.core.windows.net"
    client_id = reader.check_identity(IDENTITY_PARTS, example=example)
    uri, account = reader.identity.get("tableServiceUri"), reader.identity.get("accountName")
    if uri is None and account is None:
        reader.wrong_identity("tableServiceUri", "not set, and __accountName neither", example=example)
    if uri is not None and not is_web_address(uri):
        reader.wrong_identity("tableServiceUri", "not of the form https://host/", example=example)
    blobs = reader.identity.get("blobServiceUri")
    if blobs is not None and not is_web_address(blobs):
        example = f"{reader.setting}__blobServiceUri=https://contoso.blob.core.windows.net"
        reader.wrong_identity("blobServiceUri", "not of the form https://host/", example=example)
    if account is not None and not _ACCOUNT_NAME.fullmatch(account):
        problem = "not 3 to 24 lower-case letters and digits"
        reader.wrong_identity("accountName", problem, example=f"{reader.setting}__accountName=contoso")
    reader.stop_if_wrong()
    endpoint = uri or f"https://{account}.table.core.windows.net"
    blobs = reader.identity.get("blobServiceUri")
    if blobs is None and ".table." in endpoint:
        blobs = endpoint.replace(".table.", ".blob.", 1)
    return StateStorage(setting=reader.setting, table_endpoint=endpoint, blob_endpoint=blobs, client_id=client_id)
