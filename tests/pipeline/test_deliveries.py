"""Whatever happens to messages, in whatever order it is recorded, Spark and plain Python find the same end."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from pipeline.deliveries import deliveries
from pipeline.schemas import EVENTS
from shared.domain.pair import EntityPath
from shared.telemetry_events import (
    AuditCompleted,
    DeadLettered,
    Forwarded,
    ForwardInDoubt,
    MessageReceived,
    SendAccepted,
    SendRefused,
    TelemetryEvent,
)
from tests.pipeline.delivery_oracle import End, ends

START = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)
TIMES = st.integers(0, 9).map(lambda minutes: START + timedelta(minutes=minutes))
#: Many stories go through Spark at once: each has an entity and backlog queues of its own.
STORIES = 60
SUBSCRIPTIONS = st.sampled_from([None, None, "a", "b"])
FLAG = st.booleans()


def frame(spark: SparkSession, events: list[TelemetryEvent]) -> DataFrame:
    rows = []
    for number, event in enumerate(events):
        fields = {"v": 1, "event": event.name, "instance": "one", "seq": number}
        fields |= {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        rows.append(tuple(fields.get(name) for name in EVENTS.names))
    return spark.createDataFrame(rows, EVENTS)


@st.composite
def story(draw: st.DrawFn, number: int) -> list[TelemetryEvent]:
    """What is recorded of an entity and two messages of it; anything may be missing or come twice."""
    path = draw(st.sampled_from([f"entity-{number}", f"Entity-{number}"]))
    entity = st.sampled_from([EntityPath(path), EntityPath(path.lower())])
    queue = st.sampled_from([EntityPath(f"contoso/x-servicebus-transfer/{number}{one}") for one in "01"])
    mid = st.sampled_from(["m-0", "m-1"])
    reasons = st.sampled_from(["TTLExpiredException", "DestinationRefused"])
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(
            SendAccepted, at=TIMES, path=entity, message_id=mid, backlog_queue=st.none() | queue, seconds=st.just(0.1),
            body_bytes=st.just(1), possible_duplicate=FLAG,
        ),
        st.builds(
            SendRefused, at=TIMES, path=entity, message_id=mid, reason=st.just("x"), seconds=st.just(1.0),
            indefinite=FLAG,
        ),
        st.builds(
            Forwarded, at=TIMES, path=entity, message_id=mid, backlog_queue=queue, waited_seconds=st.just(60.0),
            possible_duplicate=FLAG,
        ),
        st.builds(
            ForwardInDoubt, at=TIMES, path=entity, message_id=mid, backlog_queue=queue, failure=st.just("time-out")
        ),
        st.builds(
            DeadLettered, at=TIMES, message_id=mid, backlog_queue=queue, reason=reasons, description=st.just(""),
            path=st.none() | entity,
        ),
        st.builds(
            MessageReceived, at=TIMES, path=entity | queue, message_id=mid, subscription=SUBSCRIPTIONS,
            sequence_number=st.none() | st.integers(1, 3),
        ),
        st.builds(
            AuditCompleted, at=TIMES, path=entity | queue, since=TIMES, messages=st.just(1), subscription=SUBSCRIPTIONS
        ),
    ]  # fmt: skip
    # Most stories are of accepted messages.
    return draw(st.lists(st.one_of(kinds[0], *kinds), min_size=1, max_size=7))


STORYBOOK = st.tuples(*[story(number) for number in range(STORIES)])


@settings(
    max_examples=4,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(stories=STORYBOOK, rng=st.randoms(use_true_random=False))
def check_stories(spark: SparkSession, stories: tuple[list[TelemetryEvent], ...], rng: Any) -> None:
    events = [event for one in stories for event in one]
    rng.shuffle(events)
    rows = deliveries(frame(spark, events)).collect()
    found = {(row.path, row.message_id): End(*[row[name] for name in End._fields]) for row in rows}
    expected = ends(events)
    assert len(rows) == len(found)
    differing = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
    told = [event for event in events if differing and differing[0][0] in str(event).lower()]
    assert {} == {key: (expected.get(key), found.get(key), told) for key in differing[:1]}


def test_spark_and_plain_python_agree_on_every_message(spark: SparkSession) -> None:
    check_stories(spark)


def test_a_topic_is_audited_when_all_its_audited_subscriptions_are(spark: SparkSession) -> None:
    """A message that came between the audits of two subscriptions may be in the first one: it is not called lost."""
    topic = EntityPath("topic")

    def audit(minute: int, subscription: str) -> AuditCompleted:
        since = START + timedelta(minutes=minute)
        return AuditCompleted(at=since, path=topic, since=since, messages=0, subscription=subscription)

    def accepted(minute: int) -> SendAccepted:
        at = START + timedelta(minutes=minute)
        return SendAccepted(at=at, path=topic, message_id=f"m-{minute}", backlog_queue=None, seconds=0.1, body_bytes=1)

    events: list[TelemetryEvent] = [accepted(1), audit(2, "a"), accepted(3), audit(4, "b"), accepted(5)]
    rows = deliveries(frame(spark, events)).collect()
    assert {"m-1": "lost", "m-3": "delivered", "m-5": "delivered"} == {row.message_id: row.status for row in rows}
