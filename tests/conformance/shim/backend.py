"""Entities for the SDK's tests, made in the broker over its public administration API and nothing else."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.management import AuthorizationRule, ServiceBusAdministrationClient

CONNECTION_STRING_VARIABLE = "CONFORMANCE_CONNECTION_STRING"
CLAIM_TYPE = "SharedAccessKey"


@dataclass(frozen=True, kw_only=True)
class ConnectionParts:
    """The fields of a connection string the tests ask for one by one."""

    host: str
    key_name: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ConnectionParts:
        fields = dict(part.split("=", 1) for part in text.rstrip(";").split(";"))
        return cls(
            host=fields["Endpoint"].removeprefix("sb://").rstrip("/"),
            key_name=fields["SharedAccessKeyName"],
            key=fields["SharedAccessKey"],
        )

    def connection_string(self, *, entity: str | None = None) -> str:
        path = f";EntityPath={entity}" if entity else ""
        return (
            f"Endpoint=sb://{self.host}/;SharedAccessKeyName={self.key_name};SharedAccessKey={self.key}{path}"
            ";UseDevelopmentEmulator=true"
        )


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What a preparer hands to a test: Azure's resource objects, of which the tests read the name."""

    name: str
    id: str = field(default="")


class Backend:
    """One namespace of a running broker, seen through the administration client."""

    def __init__(self, connection_string: str) -> None:
        self.parts = ConnectionParts.parse(connection_string)
        self._admin = ServiceBusAdministrationClient.from_connection_string(self.parts.connection_string())

    @classmethod
    def from_environment(cls) -> Backend:
        return cls(os.environ[CONNECTION_STRING_VARIABLE])

    @property
    def hostname(self) -> str:
        """Host without port: the tests call it the namespace's name."""
        return self.parts.host.partition(":")[0]

    @property
    def endpoint_suffix(self) -> str:
        """What the tests append to the namespace's name: the port, here."""
        return ":" + self.parts.host.partition(":")[2]

    def create_queue(self, prefix: str, **options: Any) -> Resource:
        queue = self._admin.create_queue(_unique(prefix), **options)
        return Resource(name=queue.name)

    def create_topic(self, prefix: str) -> Resource:
        return Resource(name=self._admin.create_topic(_unique(prefix)).name)

    def create_subscription(self, prefix: str, topic: str, **options: Any) -> Resource:
        return Resource(name=self._admin.create_subscription(topic, _unique(prefix), **options).name)

    def delete_queue(self, name: str) -> None:
        try:
            self._admin.delete_queue(name)
        except ResourceNotFoundError:
            return  # the test removed it itself

    def delete_topic(self, name: str) -> None:
        try:
            self._admin.delete_topic(name)
        except ResourceNotFoundError:
            return  # the test removed it itself

    def add_queue_rule(self, queue: str, prefix: str, rights: list[str]) -> ConnectionParts:
        """A shared access policy on one queue."""
        name, key = _unique(prefix), uuid.uuid4().hex
        properties = self._admin.get_queue(queue)
        rule = AuthorizationRule(
            type="SharedAccessAuthorizationRule",
            claim_type=CLAIM_TYPE,
            claim_value="None",
            rights=rights,
            key_name=name,
            primary_key=key,
            secondary_key=uuid.uuid4().hex,
        )
        properties.authorization_rules = [*(properties.authorization_rules or []), rule]
        self._admin.update_queue(properties)
        return ConnectionParts(host=self.parts.host, key_name=name, key=key)

    def close(self) -> None:
        self._admin.close()


def _unique(prefix: str) -> str:
    return f"{prefix or 'entity'}{uuid.uuid4().hex[:12]}"
