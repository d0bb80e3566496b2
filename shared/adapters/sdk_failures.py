"""Every exception that sending through the SDK can raise, and what it means to us.

The SDK derives its exceptions from the AMQP condition of the refusal and writes that condition into the exception's
text; where one class covers several conditions, the text decides. A token that cannot be put for an entity (CBS) is
always an authentication error to the SDK, with the real status in its text: for a missing entity that is 404.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

import azure.core.exceptions as core
import azure.servicebus.exceptions as sdk

from shared.domain.failures import Failure
from shared.errors import Rejected

_CONDITION = re.compile(r"[Ee]rror condition: ([a-z][a-z0-9:.-]*[a-z0-9])")
_STATUS = re.compile(r"[Ss]tatus[ -][Cc]ode: (\d{3})")
DETAIL_LENGTH_MAX = 500
#: Errors behind an error that are looked at.
CAUSES_MAX = 5

BY_CLASS: Mapping[type[BaseException], Failure] = {
    sdk.ServiceBusConnectionError: Failure.CONNECTION,
    sdk.ServiceBusCommunicationError: Failure.CONNECTION,
    sdk.ServiceBusAuthorizationError: Failure.UNAUTHORIZED,
    sdk.ServiceBusAuthenticationError: Failure.UNAUTHORIZED,
    sdk.OperationTimeoutError: Failure.TIMEOUT,
    sdk.MessageSizeExceededError: Failure.MESSAGE_TOO_LARGE,
    sdk.MessagingEntityNotFoundError: Failure.ENTITY_NOT_FOUND,
    sdk.MessagingEntityDisabledError: Failure.ENTITY_DISABLED,
    sdk.ServiceBusQuotaExceededError: Failure.ENTITY_FULL,
    sdk.ServiceBusServerBusyError: Failure.BUSY,
    # A send has neither locks nor settlement; should the service answer so all the same, the message is not to blame.
    sdk.MessageLockLostError: Failure.SERVICE_ERROR,
    sdk.SessionLockLostError: Failure.SERVICE_ERROR,
    sdk.SessionCannotBeLockedError: Failure.SERVICE_ERROR,
    sdk.MessageNotFoundError: Failure.SERVICE_ERROR,
    sdk.MessagingEntityAlreadyExistsError: Failure.SERVICE_ERROR,
    sdk.AutoLockRenewFailed: Failure.SERVICE_ERROR,
    sdk.AutoLockRenewTimeout: Failure.SERVICE_ERROR,
    sdk.MessageAlreadySettled: Failure.SERVICE_ERROR,
    sdk.ServiceBusError: Failure.SERVICE_ERROR,
    Rejected: Failure.MESSAGE_REJECTED,
    core.ClientAuthenticationError: Failure.UNAUTHORIZED,
    core.ServiceRequestError: Failure.CONNECTION,
    core.ServiceResponseError: Failure.CONNECTION,
    TimeoutError: Failure.TIMEOUT,
    OSError: Failure.CONNECTION,
    # The SDK raises these while it encodes a message that cannot be encoded.
    ValueError: Failure.MESSAGE_REJECTED,
    TypeError: Failure.MESSAGE_REJECTED,
    OverflowError: Failure.MESSAGE_REJECTED,
}
# AMQP core 2.8.15, 2.8.16, messaging 3.5.10 and the service's own: what says that this message will never be welcome.
_MESSAGE_CONDITIONS = frozenset(
    {
        "amqp:not-allowed",
        "amqp:not-implemented",
        "amqp:precondition-failed",
        "amqp:invalid-field",
        "amqp:decode-error",
        "com.microsoft:argument-error",
        "com.microsoft:argument-out-of-range",
        "com.microsoft:precondition-failed",
    }
)
_CBS_STATUS = {400: Failure.UNAUTHORIZED, 401: Failure.UNAUTHORIZED, 403: Failure.UNAUTHORIZED}


def classify(error: BaseException) -> Failure:
    """What the error means; an error nobody has heard of is the service's, since that loses no message."""
    if isinstance(error, sdk.ServiceBusAuthenticationError):
        return _token_refused(_full_text(error))
    if isinstance(error, sdk.ServiceBusConnectionError) and _name_is_unknown(error):
        return Failure.NAMESPACE_NOT_FOUND
    if type(error) is sdk.ServiceBusError and _condition(str(error)) in _MESSAGE_CONDITIONS:
        return Failure.MESSAGE_REJECTED
    for kind in type(error).__mro__:
        if kind in BY_CLASS:
            return BY_CLASS[kind]
    return Failure.SERVICE_ERROR


def _name_is_unknown(error: BaseException) -> bool:
    """Whether name resolution answered that there is no such host; that nobody answered is another error.

    Asked of connections to the namespace only: a token service without a name is an outage of another kind.
    """
    behind: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if isinstance(behind, socket.gaierror):
            return behind.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
        behind = behind and (behind.__cause__ or behind.__context__)
    return False


def _full_text(error: BaseException) -> str:
    """The text with that of the error behind it, where azure-core keeps one."""
    return str(getattr(error, "exc_msg", None) or error)


def _condition(text: str) -> str | None:
    found = _CONDITION.search(text)
    return found[1] if found else None


def _token_refused(text: str) -> Failure:
    found = _STATUS.search(text)
    status = int(found[1]) if found else 401
    if status == 404 or _condition(text) == "amqp:not-found":
        return Failure.ENTITY_NOT_FOUND
    return _CBS_STATUS.get(status, Failure.SERVICE_ERROR if status >= 500 else Failure.UNAUTHORIZED)


def detail_of(error: BaseException) -> str:
    """The error's own words, in one line of bounded length; SDK texts hold addresses and conditions, never keys."""
    text = " ".join(_full_text(error).split()) or type(error).__name__
    return text if len(text) <= DETAIL_LENGTH_MAX else f"{text[:DETAIL_LENGTH_MAX]}..."
