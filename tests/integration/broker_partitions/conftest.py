"""The broker and the SDK as the broker's other integration tests have them."""

from tests.integration.broker.conftest import (
    _keep_alive_does_not_hold_up_closing,
    broker,
    connect,
    make_queue,
    make_subscription,
    make_topic,
    sdk_leftovers_are_swept,
)

__all__ = [
    "_keep_alive_does_not_hold_up_closing",
    "broker",
    "connect",
    "make_queue",
    "make_subscription",
    "make_topic",
    "sdk_leftovers_are_swept",
]
