"""How the app reaches the two namespaces and its table storage: connection strings and identity-based settings.

The names follow the Functions convention, so that one setting serves trigger bindings and SDK clients alike:
`ServiceBusPrimary` holds a connection string, or `ServiceBusPrimary__fullyQualifiedNamespace` names the namespace
that the app's identity may use. Every reader raises ConfigurationError with all the problems it found; their texts
never repeat a value that could hold a secret.
"""

from shared.connections.namespace import NamespaceConnection, read_namespace
from shared.connections.reader import Secret
from shared.connections.storage import StateStorage, read_state_storage

__all__ = ["NamespaceConnection", "Secret", "StateStorage", "read_namespace", "read_state_storage"]
