"""Every refusal of the broker, with the AMQP condition it travels as.

The condition decides which exception the client raises, so it is chosen where the refusal is, once.
"""

from __future__ import annotations

NOT_FOUND = "amqp:not-found"
UNAUTHORIZED = "amqp:unauthorized-access"
NOT_ALLOWED = "amqp:not-allowed"
NOT_IMPLEMENTED = "amqp:not-implemented"
INVALID_FIELD = "amqp:invalid-field"
DECODE_ERROR = "amqp:decode-error"
INTERNAL_ERROR = "amqp:internal-error"
RESOURCE_DELETED = "amqp:resource-deleted"
QUOTA_EXCEEDED = "amqp:resource-limit-exceeded"
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
DETACH_FORCED = "amqp:link:detach-forced"
CONNECTION_FORCED = "amqp:connection:forced"
SERVER_BUSY = "com.microsoft:server-busy"
TIMEOUT = "com.microsoft:timeout"
AUTH_FAILED = "com.microsoft:auth-failed"
ENTITY_DISABLED = "com.microsoft:entity-disabled"
ENTITY_EXISTS = "com.microsoft:entity-already-exists"
ARGUMENT_ERROR = "com.microsoft:argument-error"
ARGUMENT_OUT_OF_RANGE = "com.microsoft:argument-out-of-range"
MESSAGE_LOCK_LOST = "com.microsoft:message-lock-lost"
MESSAGE_NOT_FOUND = "com.microsoft:message-not-found"
SESSION_LOCK_LOST = "com.microsoft:session-lock-lost"
SESSION_CANNOT_BE_LOCKED = "com.microsoft:session-cannot-be-locked"
OPERATION_CANCELLED = "com.microsoft:operation-cancelled"


class BrokerError(Exception):
    """A request the broker refuses: an AMQP condition and a sentence that says what is wrong."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


class EntityNotFound(BrokerError):
    def __init__(self, path: str) -> None:
        super().__init__(NOT_FOUND, f"The messaging entity '{path}' could not be found.")


class EntityExists(BrokerError):
    def __init__(self, path: str) -> None:
        super().__init__(ENTITY_EXISTS, f"The messaging entity '{path}' already exists.")


class InvalidDescription(BrokerError):
    """An entity description that the service would refuse with 400."""

    def __init__(self, description: str) -> None:
        super().__init__(ARGUMENT_ERROR, description)


class FilterError(BrokerError):
    """A filter or action text that cannot be parsed or is over a limit."""

    def __init__(self, description: str) -> None:
        super().__init__(ARGUMENT_ERROR, description)
