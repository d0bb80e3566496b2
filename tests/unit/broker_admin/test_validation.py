"""Descriptions that the service refuses are refused, at the exact limit, with the property named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from local.broker import naming, quotas, validation
from local.broker.descriptions import (
    MAX_TIMESPAN,
    AuthorizationRule,
    CorrelationFilter,
    QueueDescription,
    RuleDescription,
    SqlFilter,
    SqlRuleAction,
    SubscriptionDescription,
    TopicDescription,
)
from local.broker.errors import FilterError, InvalidDescription


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InvalidDescription) as caught:
        call()
    return caught.value.description


@pytest.mark.parametrize(
    "path", ["q", "Orders", "txt/.-_123", "contoso/x-servicebus-transfer/0", "a.b-c_d~e/f", "a" * 260, "1"]
)
def test_good_paths_are_taken(path: str) -> None:
    naming.check_path(path)


@pytest.mark.parametrize(
    "path",
    ["", "a" * 261, "/a", "a/", "a//b", "a b", "a?b", "a#b", "$x", "-a", "a_", "é", "a\n", "a\\b", "t/Subscriptions/s"],
)
def test_bad_paths_are_refused(path: str) -> None:
    assert refusal(lambda: naming.check_path(path))


@pytest.mark.parametrize("check", [naming.check_subscription_name, naming.check_rule_name])
def test_names_of_subscriptions_and_rules_have_fifty_characters_and_one_level(check: Callable[[str], None]) -> None:
    check("a" * 50)
    check("Sub.1-a_b")
    for name in ("", "a" * 51, "a/b", "a b", ".a"):
        assert refusal(lambda: check(name))  # noqa: B023


def test_only_a_rule_may_be_called_default() -> None:
    naming.check_rule_name("$Default")
    assert refusal(lambda: naming.check_subscription_name("$Default"))


SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("name", "lowest", "highest", "step"),
    [
        ("lock_duration", timedelta(seconds=5), timedelta(minutes=5), MICROSECOND),
        ("default_message_time_to_live", SECOND, MAX_TIMESPAN, MICROSECOND),
        ("duplicate_detection_history_time_window", timedelta(seconds=20), timedelta(days=7), MICROSECOND),
        ("auto_delete_on_idle", timedelta(minutes=5), MAX_TIMESPAN, MICROSECOND),
        ("max_delivery_count", 1, 2147483647, 1),
        ("max_size_in_megabytes", 1024, 5120, 1024),
    ],
)
def test_limits_hold_at_their_very_edge(name: str, lowest: object, highest: object, step: object) -> None:
    def check(value: object) -> None:
        validation.check_queue(replace(QueueDescription(), **{name: value}), "Standard")  # type: ignore[arg-type]

    check(lowest)
    check(highest)
    for value in (lowest - step, highest + step):  # type: ignore[operator]
        complaint = refusal(lambda: check(value))  # noqa: B023
        assert complaint.startswith(name.replace("_", " ").title().replace(" ", ""))


def test_a_lock_of_twenty_five_days_is_refused_everywhere() -> None:
    days = timedelta(days=25)
    assert "LockDuration" in refusal(lambda: validation.check_queue(QueueDescription(lock_duration=days), "Standard"))
    description = SubscriptionDescription(lock_duration=days)
    assert "LockDuration" in refusal(lambda: validation.check_subscription(description, "Standard"))


def test_a_backlog_queue_of_a_pair_is_taken() -> None:
    backlog = QueueDescription(
        max_size_in_megabytes=5120,
        max_delivery_count=2147483647,
        default_message_time_to_live=MAX_TIMESPAN,
        auto_delete_on_idle=MAX_TIMESPAN,
        lock_duration=timedelta(minutes=1),
        dead_lettering_on_message_expiration=True,
    )
    validation.check_queue(backlog, "Standard")


@pytest.mark.parametrize("size_mb", [0, 1, 1025, 6144, -1024])
def test_sizes_go_in_steps(size_mb: int) -> None:
    complaint = refusal(lambda: validation.check_topic(TopicDescription(max_size_in_megabytes=size_mb), "Standard"))
    assert "MaxSizeInMegabytes" in complaint


def test_premium_is_larger_and_takes_a_message_size() -> None:
    validation.check_queue(
        QueueDescription(max_size_in_megabytes=81920, max_message_size_in_kilobytes=102400), "Premium"
    )
    validation.check_topic(TopicDescription(max_message_size_in_kilobytes=1024), "Premium")
    for size_kb in (1023, 102401):
        description = QueueDescription(max_message_size_in_kilobytes=size_kb)
        assert refusal(lambda: validation.check_queue(description, "Premium"))  # noqa: B023


def test_standard_takes_no_message_size_but_the_one_it_shows() -> None:
    validation.check_queue(QueueDescription(max_message_size_in_kilobytes=256), "Standard")
    for size_kb in (1024, 255, 102400):
        description = QueueDescription(max_message_size_in_kilobytes=size_kb)
        assert "Premium" in refusal(lambda: validation.check_queue(description, "Standard"))  # noqa: B023


@pytest.mark.parametrize("change", [{"enable_partitioning": True}, {"enable_express": True}])
def test_premium_has_neither_partitions_nor_express_entities(change: dict[str, bool]) -> None:
    queue = replace(QueueDescription(), **change)  # type: ignore[arg-type]
    validation.check_queue(queue, "Standard")
    assert "Premium" in refusal(lambda: validation.check_queue(queue, "Premium"))


def test_express_and_duplicate_detection_exclude_each_other() -> None:
    description = TopicDescription(enable_express=True, requires_duplicate_detection=True)
    assert "EnableExpress" in refusal(lambda: validation.check_topic(description, "Standard"))


@pytest.mark.parametrize(
    "description",
    [
        QueueDescription(requires_session=True),
        QueueDescription(requires_duplicate_detection=True),
        QueueDescription(forward_to="x"),
        QueueDescription(forward_dead_lettered_messages_to="x"),
    ],
)
def test_basic_lacks_what_it_lacks(description: QueueDescription) -> None:
    validation.check_queue(QueueDescription(), "Basic")
    assert "Basic" in refusal(lambda: validation.check_queue(description, "Basic"))


def test_basic_has_no_topics() -> None:
    assert "Basic" in refusal(lambda: validation.check_topic(TopicDescription(), "Basic"))
    assert "Basic" in refusal(lambda: validation.check_subscription(SubscriptionDescription(), "Basic"))


def test_metadata_has_a_length() -> None:
    validation.check_topic(TopicDescription(user_metadata="a" * 1024), "Standard")
    assert "UserMetadata" in refusal(
        lambda: validation.check_topic(TopicDescription(user_metadata="a" * 1025), "Standard")
    )


def rule(
    name: str = "k", rights: tuple[str, ...] = ("Send",), primary: str = "p", secondary: str = ""
) -> AuthorizationRule:
    return AuthorizationRule(key_name=name, primary_key=primary, secondary_key=secondary, rights=rights)


@pytest.mark.parametrize(
    "rules",
    [
        tuple(rule(f"k{i}") for i in range(13)),
        (rule("same"), rule("same")),
        (rule(""),),
        (rule("a" * 257),),
        (rule(primary=""),),
        (rule(secondary="s" * 257),),
        (rule(rights=()),),
        (rule(rights=("Read",)),),
        (rule(rights=("Manage", "Send")),),
    ],
)
def test_authorization_rules_that_make_no_sense_are_refused(rules: tuple[AuthorizationRule, ...]) -> None:
    assert refusal(lambda: validation.check_queue(QueueDescription(authorization_rules=rules), "Standard"))


def test_twelve_authorization_rules_are_taken() -> None:
    rules = tuple(rule(f"k{i}", ("Manage", "Send", "Listen")) for i in range(12))
    validation.check_queue(QueueDescription(authorization_rules=rules), "Standard")


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"requires_session": True}, "RequiresSession"),
        ({"requires_duplicate_detection": True}, "RequiresDuplicateDetection"),
        ({"enable_partitioning": True}, "EnablePartitioning"),
    ],
)
def test_what_was_decided_at_creation_stays(change: dict[str, bool], shown: str) -> None:
    changed = replace(QueueDescription(), **change)  # type: ignore[arg-type]
    assert shown in refusal(lambda: validation.check_queue_change(QueueDescription(), changed))
    assert shown in refusal(lambda: validation.check_queue_change(changed, QueueDescription()))
    validation.check_queue_change(changed, replace(changed, max_delivery_count=3, max_size_in_megabytes=2048))


def test_topics_and_subscriptions_keep_their_decisions_too() -> None:
    topic, partitioned = TopicDescription(), TopicDescription(enable_partitioning=True)
    assert "EnablePartitioning" in refusal(lambda: validation.check_topic_change(topic, partitioned))
    plain, sessions = SubscriptionDescription(), SubscriptionDescription(requires_session=True)
    assert "RequiresSession" in refusal(lambda: validation.check_subscription_change(plain, sessions))


def test_the_size_of_a_partitioned_entity_may_be_given_as_it_is_shown() -> None:
    made = QueueDescription(max_size_in_megabytes=3072, enable_partitioning=True)
    shown = validation.shown_size_mb(made)
    assert shown == 3072 * 16
    again = replace(made, max_size_in_megabytes=shown)
    assert validation.with_stored_size(again, "Standard") == made
    assert validation.with_stored_size(made, "Standard") == made
    unpartitioned = QueueDescription(max_size_in_megabytes=3072 * 16)
    assert validation.with_stored_size(unpartitioned, "Standard") == unpartitioned
    assert validation.shown_size_mb(QueueDescription()) == 1024


def test_forwarding_needs_a_target_that_exists() -> None:
    existing = {"orders", "a/b"}

    def check(**targets: str) -> None:
        validation.check_forwarding(QueueDescription(**targets), lambda path: path in existing)  # type: ignore[arg-type]

    check(forward_to="orders", forward_dead_lettered_messages_to="sb://host:5672/a/b")
    check(forward_to="sb://host/a%2Fb")
    assert "ForwardTo" in refusal(lambda: check(forward_to="sb://host/missing"))
    assert "ForwardDeadLetteredMessagesTo" in refusal(lambda: check(forward_dead_lettered_messages_to="missing"))
    assert "not an address" in refusal(lambda: check(forward_to="sb://[host/orders"))


def test_rules_are_compiled_before_they_are_taken() -> None:
    validation.validate_rule(RuleDescription(name="r", filter=SqlFilter(expression="a = 1")))
    with pytest.raises(FilterError):
        validation.validate_rule(RuleDescription(name="r", filter=SqlFilter(expression="a =")))
    with pytest.raises(FilterError):
        validation.validate_rule(RuleDescription(name="r", action=SqlRuleAction(expression="a = 1")))
    with pytest.raises(FilterError):
        validation.validate_rule(RuleDescription(name="r", filter=CorrelationFilter()))


def test_rooms_are_full_at_their_limit() -> None:
    quotas.check_entity_room(9_999)
    assert refusal(lambda: quotas.check_entity_room(10_000))
    quotas.check_subscription_room(1_999)
    assert refusal(lambda: quotas.check_subscription_room(2_000))
    sql, correlation = RuleDescription(name="s"), RuleDescription(name="c", filter=CorrelationFilter(label="x"))
    quotas.check_rule_room(sql, sql_filters=1_999, correlation_filters=100_000)
    quotas.check_rule_room(correlation, sql_filters=2_000, correlation_filters=99_999)
    assert "SQL" in refusal(lambda: quotas.check_rule_room(sql, sql_filters=2_000, correlation_filters=0))
    assert "correlation" in refusal(
        lambda: quotas.check_rule_room(correlation, sql_filters=0, correlation_filters=100_000)
    )


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT1M", timedelta(minutes=1)),
        ("PT0S", timedelta(0)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("PT300S", timedelta(minutes=5)),
        ("P1W", timedelta(weeks=1)),
        ("P1Y2M", timedelta(days=425)),
        ("PT0.0000019S", timedelta(microseconds=1)),
        ("P10675199DT2H48M5.4775807S", MAX_TIMESPAN),
        ("P10675199DT2H48M5.477579S", MAX_TIMESPAN),
    ],
)
def test_durations_are_read(text: str, duration: timedelta) -> None:
    assert validation.parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "1", "PT1", "P1H", "P1DT", "-PT1M", "PT-1M", "00:01:00", "PT1.S", "P99999999D", "PT1M x", "\u0661"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert refusal(lambda: validation.parse_duration(text))


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "PT0S"),
        (timedelta(days=2), "P2D"),
        (timedelta(minutes=90), "PT1H30M"),
        (timedelta(days=1, seconds=1, microseconds=500000), "P1DT1.5S"),
        (MAX_TIMESPAN, "P10675199DT2H48M5.4775807S"),
    ],
)
def test_durations_are_written(duration: timedelta, text: str) -> None:
    assert validation.format_duration(duration) == text


def test_a_whole_entity_is_judged_by_name_limits_change_and_forwarding() -> None:
    plain, sessions = QueueDescription(), QueueDescription(requires_session=True)
    validation.validate_queue("q", plain, tier="Standard", exists=lambda path: False, before=plain)
    assert refusal(lambda: validation.validate_queue("q?", plain, tier="Standard"))
    assert refusal(lambda: validation.validate_queue("q", replace(plain, max_delivery_count=0), tier="Standard"))
    assert refusal(lambda: validation.validate_queue("q", sessions, tier="Standard", before=plain))
    forwarding = replace(plain, forward_to="x")
    validation.validate_queue("q", forwarding, tier="Standard")
    assert refusal(lambda: validation.validate_queue("q", forwarding, tier="Standard", exists=lambda path: False))
    subscription = SubscriptionDescription(forward_to="x")
    validation.validate_subscription("t", "s", subscription, exists=lambda path: path == "x")
    assert refusal(lambda: validation.validate_subscription("t", "s", subscription, exists=lambda path: False))
    assert refusal(lambda: validation.validate_subscription("t", "s/s", subscription))
    topic = TopicDescription()
    validation.validate_topic("t", topic, tier="Standard", before=topic)
    assert refusal(lambda: validation.validate_topic("t", TopicDescription(enable_partitioning=True), tier="Premium"))
