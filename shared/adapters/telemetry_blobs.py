"""Published telemetry in blob storage: each closed file becomes one block blob, whole or not at all."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.storage.blob import BlobServiceClient

from shared.adapters.telemetry_files import PublishFailed
from shared.connections import StateStorage
from shared.errors import ConfigurationError, SettingProblem

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

#: One attempt; the writer itself tries again for as long as it takes.
UPLOAD_SECONDS_MAX = 30
CONNECT_SECONDS_MAX = 5


class BlobAddressMissing(ConfigurationError):
    """The account of the telemetry container is not known."""

    def __init__(self, setting: str) -> None:
        name = f"{setting}__blobServiceUri"
        example = f"{name}=https://contoso.blob.core.windows.net"
        problem = "not set, and TELEMETRY_CONTAINER needs it; the table address does not tell the blob address"
        super().__init__([SettingProblem(setting=name, problem=problem, example=example)])


class BlobPublisher:
    """Synchronous on purpose: it lives in the writer's thread."""

    def __init__(self, storage: StateStorage, container: str, credential: TokenCredential | None = None) -> None:
        limits: dict[str, Any] = {
            "retry_total": 1,
            "connection_timeout": CONNECT_SECONDS_MAX,
            "read_timeout": UPLOAD_SECONDS_MAX,
        }
        if storage.connection_string is not None:
            secret = storage.connection_string.reveal()
            self._service = BlobServiceClient.from_connection_string(secret, **limits)
        elif storage.blob_endpoint is None:
            raise BlobAddressMissing(storage.setting)
        else:
            self._service = BlobServiceClient(storage.blob_endpoint, credential, **limits)
        self._container = self._service.get_container_client(container)
        self._exists = False

    def publish(self, file: Path, name: str) -> None:
        try:
            self._make_container()
            with file.open("rb") as content:
                self._container.upload_blob(name, content, overwrite=True, max_concurrency=1)
        except AzureError as error:
            raise PublishFailed(f"blob storage answered with {type(error).__name__}") from error
        except OSError as error:
            raise PublishFailed(f"{file.name} cannot be read: {error.strerror}") from error
        with contextlib.suppress(FileNotFoundError):
            file.unlink()

    def _make_container(self) -> None:
        if not self._exists:
            with contextlib.suppress(ResourceExistsError):
                self._container.create_container()
            self._exists = True

    def close(self) -> None:
        self._service.close()
