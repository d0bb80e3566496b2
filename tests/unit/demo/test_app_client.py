"""What the demo reads out of the app's answers."""

from __future__ import annotations

from local.demo.app_client import states_of


def test_a_partitioned_entity_with_keys_that_are_diverted_is_partly_available() -> None:
    status = {
        "entities": [
            {"path": "orders", "availability": "suspect"},
            {"path": "a", "availability": "available", "keys": [{"key": "1", "availability": "available"}]},
            {"path": "b", "availability": "available", "keys": [{"key": "1", "availability": "draining"}]},
            {"path": "c", "availability": "unavailable", "keys": [{"key": "1", "availability": "unavailable"}]},
        ]
    }
    assert {"orders": "suspect", "a": "available", "b": "partly available", "c": "unavailable"} == states_of(status)
