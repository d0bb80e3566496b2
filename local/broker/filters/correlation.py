"""Correlation filters: every property that is given must be equal. Text is compared with regard to case."""

from __future__ import annotations

from collections.abc import Callable

from local.broker.descriptions import CorrelationFilter
from local.broker.errors import FilterError

from .values import are_equal, plain
from .views import FilterView

_SYSTEM_FIELDS = (
    ("correlation_id", "correlationid"),
    ("message_id", "messageid"),
    ("to", "to"),
    ("reply_to", "replyto"),
    ("label", "label"),
    ("session_id", "sessionid"),
    ("reply_to_session_id", "replytosessionid"),
    ("content_type", "contenttype"),
)


def compile_correlation(rule_filter: CorrelationFilter) -> Callable[[FilterView], bool]:
    system = [
        (name, wanted) for field, name in _SYSTEM_FIELDS if (wanted := getattr(rule_filter, field)) is not None
    ]
    user = [(name, plain(wanted)) for name, wanted in rule_filter.properties]
    if not system and not user:
        raise FilterError("A correlation filter must name at least one property.")

    def matches(view: FilterView) -> bool:
        for name, wanted in system:
            if view.system(name) != wanted:
                return False
        for name, wanted in user:
            value = plain(view.user(name))
            if value is None or wanted is None:
                if value is not wanted or not view.has_user(name):
                    return False
            elif not are_equal(value, wanted):
                return False
        return True

    return matches
