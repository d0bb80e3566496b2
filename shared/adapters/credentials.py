"""The app's identity, where a connection has no connection string."""

from __future__ import annotations

from azure.identity import DefaultAzureCredential as BlockingDefaultAzureCredential
from azure.identity.aio import DefaultAzureCredential


def credential_for(client_id: str | None) -> DefaultAzureCredential:
    """Managed identity in Azure, the developer's own sign-in elsewhere; `client_id` picks a user-assigned one."""
    return DefaultAzureCredential(managed_identity_client_id=client_id)


def blocking_credential_for(client_id: str | None) -> BlockingDefaultAzureCredential:
    """The same, for a thread that may wait."""
    return BlockingDefaultAzureCredential(managed_identity_client_id=client_id)
