"""What queues, topics, subscriptions and rules may be called."""

from __future__ import annotations

import re

from .errors import InvalidDescription

PATH_CHARS_MAX = 260
NAME_CHARS_MAX = 50
DEFAULT_RULE = "$Default"

_PATH = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._~/-]*[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def check_path(path: str) -> None:
    """The name of a queue or topic, which may have several levels."""
    check_length("The name of a queue or topic", path, PATH_CHARS_MAX)
    if not _PATH.fullmatch(path) or "//" in path:
        raise InvalidDescription(
            f"'{path}' is not a name: letters, digits, '.', '-', '_', '~' and '/' inside, not '.', '-', '_' at an end."
        )
    if "subscriptions" in path.lower().split("/"):
        raise InvalidDescription(f"'{path}' is not a name: no level of it may be called 'subscriptions'.")


def check_subscription_name(name: str) -> None:
    _check_name("subscription", name)


def check_rule_name(name: str) -> None:
    if name.lower() != DEFAULT_RULE.lower():
        _check_name("rule", name)


def _check_name(what: str, name: str) -> None:
    check_length(f"The name of a {what}", name, NAME_CHARS_MAX)
    if not _NAME.fullmatch(name):
        raise InvalidDescription(
            f"'{name}' is not a name for a {what}: letters, digits, '.', '-', '_' inside, not '.', '-', '_' at an end."
        )


def check_length(what: str, text: str, limit: int) -> None:
    if not text:
        raise InvalidDescription(f"{what} is missing.")
    if len(text) > limit:
        raise InvalidDescription(f"{what} is {len(text)} characters long; the limit is {limit}.")
