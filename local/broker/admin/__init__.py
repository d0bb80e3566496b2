"""The administration API: Atom feeds over HTTP, as every Service Bus SDK speaks it."""

from __future__ import annotations

from .api import API_VERSIONS, AdminApi
from .identity import IDENTITY_PATH, ManagedIdentityEndpoint

__all__ = ["API_VERSIONS", "IDENTITY_PATH", "AdminApi", "ManagedIdentityEndpoint"]
