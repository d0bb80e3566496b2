"""Rules of subscriptions: filters that choose messages and actions that change them, compiled once and run per message.

Language: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-messaging-sql-filter and
https://learn.microsoft.com/azure/service-bus-messaging/service-bus-messaging-sql-rule-action
"""

from __future__ import annotations

from collections.abc import Callable

from local.broker.descriptions import CorrelationFilter, FalseFilter, RuleFilter, SqlFilter, SqlRuleAction, TrueFilter

from .actions import compile_sql_action
from .conditions import compile_condition
from .correlation import compile_correlation
from .parsing import ACTION_STATEMENTS_MAX, NESTING_MAX, TEXT_CHARS_MAX, parse_action, parse_condition
from .views import Changes, FilterEvaluationError, FilterView

__all__ = [
    "ACTION_STATEMENTS_MAX",
    "NESTING_MAX",
    "TEXT_CHARS_MAX",
    "Changes",
    "FilterEvaluationError",
    "FilterView",
    "compile_action",
    "compile_filter",
]


def compile_filter(rule_filter: RuleFilter) -> Callable[[FilterView], bool]:
    """FilterError when the text makes no sense; the result raises FilterEvaluationError for unfit messages."""
    match rule_filter:
        case TrueFilter():
            return _always
        case FalseFilter():
            return _never
        case CorrelationFilter():
            return compile_correlation(rule_filter)
        case SqlFilter():
            return compile_condition(parse_condition(rule_filter.expression), dict(rule_filter.parameters))


def compile_action(action: SqlRuleAction) -> Callable[[FilterView], Changes]:
    """FilterError when the text makes no sense; the result raises FilterEvaluationError for unfit messages."""
    return compile_sql_action(parse_action(action.expression), dict(action.parameters))


def _always(view: FilterView) -> bool:
    return True


def _never(view: FilterView) -> bool:
    return False
