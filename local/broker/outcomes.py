"""Delivery outcomes of AMQP as the broker's links use them."""

from __future__ import annotations

from .amqp.performatives import Accepted, AmqpError, Rejected, Released
from .errors import INTERNAL_ERROR, BrokerError

ACCEPTED = Accepted()
REJECTED = Rejected(None)
RELEASED = Released()


def amqp_error(error: BrokerError) -> AmqpError:
    return AmqpError(error.condition, error.description, None)


def rejected(error: BrokerError) -> Rejected:
    return Rejected(amqp_error(error))


def internal_error(error: Exception) -> BrokerError:
    """A mistake of the broker itself: said as such, never as the client's."""
    return BrokerError(INTERNAL_ERROR, f"The broker failed: {type(error).__name__}: {error}")
