"""Options of the source: unknown ones are refused by name, settings come from two places, secrets stay unseen."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from pipeline.servicebus.errors import OptionRefused
from pipeline.servicebus.given import Use, read_given
from pipeline.servicebus.plans import plan_read, plan_write
from pipeline.servicebus.source import ServiceBusDataSource
from shared.errors import ConfigurationError

KEY = "bm90IGEga2V5"
NAMESPACE = f"Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey={KEY}"
OTHER = f"Endpoint=sb://fabrikam.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey={KEY}"
STORAGE = f"DefaultEndpointsProtocol=https;AccountName=contoso;AccountKey={KEY}"
ENVIRONMENT = {"ServiceBusPrimary": NAMESPACE, "ServiceBusSecondary": OTHER, "AzureWebJobsStorage": STORAGE}


@pytest.mark.parametrize(
    ("options", "use", "complaint"),
    [
        ({"entitty": "orders"}, Use.READ, "option entitty is not known; known are entity, "),
        ({"a key = " + KEY: ""}, Use.READ, r"option \(of 20 characters\) is not known"),
        ({"SEND_DEADLINE.secret": "PT1S"}, Use.WRITE, "option SEND_DEADLINE.secret is not known"),
        ({"maxInFlight": "5"}, Use.READ, "option maxInFlight is for writing and writing a stream, and this is reading"),
        ({"messageIdPrefix": "x"}, Use.WRITE_STREAM, "option messageIdPrefix is for writing, and this is writing a"),
        ({"path": "orders", "entity": "orders"}, Use.READ, "option entity is given twice, under two names"),
        (
            {"AzureWebJobsStorage": STORAGE},
            Use.WRITE,
            "give it as AzureWebJobsStorage.secret, which Spark masks, or as",
        ),
        ({"maxMessages": "0"}, Use.READ, "option maxMessages is outside 1 to 10000000; it takes 1 to 10000000"),
        (
            {"subQueue": "attic", "entity": "orders"},
            Use.READ,
            "option subQueue is not deadLetter or transferDeadLetter",
        ),
        ({"backlog": "true", "entity": "orders"}, Use.READ, "options backlog and entity are both given"),
        ({"entity": "a//b"}, Use.READ, "option entity: An entity path holds letters"),
    ],
)
def test_a_bad_option_is_named_with_what_to_do(options: dict[str, str], use: Use, complaint: str) -> None:
    with pytest.raises(OptionRefused, match=complaint) as refused:
        plan_read(read_given(options, ENVIRONMENT, use), None)
    assert KEY not in str(refused.value)


def test_what_spark_puts_among_the_options_and_their_case_do_not_matter() -> None:
    given = read_given({"CHECKPOINTLOCATION": "/x", "queryName": "q", "ENTITY": "orders"}, ENVIRONMENT, Use.READ)
    assert ("orders",) == tuple(queue.name for queue in plan_read(given, None).queues)


def test_options_win_over_the_environment_and_replace_a_connection_as_a_whole() -> None:
    options = {"ServiceBusPrimary__fullyQualifiedNamespace": "other.servicebus.windows.net", "SEND_DEADLINE": "PT7S"}
    plan = plan_write(read_given(options, {**ENVIRONMENT, "FAILOVER_INTERVAL": "PT3S"}, Use.WRITE), None)
    primary = plan.settings.primary
    assert ("other", None) == (primary.name, primary.connection_string)
    assert timedelta(seconds=3 + 2 * 7) == plan.retry_for
    own_storage = {"PairStateStorage.secret": STORAGE.replace("contoso", "own")}
    plan = plan_write(read_given(own_storage, ENVIRONMENT, Use.WRITE), None)
    assert "PairStateStorage" == plan.settings.state_storage.setting


def test_settings_that_are_missing_are_listed_by_their_names() -> None:
    with pytest.raises(ConfigurationError) as wrong:
        plan_write(read_given({"ServiceBusPrimary": NAMESPACE}, {}, Use.WRITE), None)
    assert ["ServiceBusSecondary", "AzureWebJobsStorage"] == [problem.setting for problem in wrong.value.problems]


def test_reading_asks_for_no_more_settings_than_it_needs() -> None:
    given = read_given({"entity": "news", "subscription": "all", "subQueue": "deadLetter"}, ENVIRONMENT, Use.READ)
    assert ["news/Subscriptions/all/$DeadLetterQueue"] == [queue.name for queue in plan_read(given, None).queues]
    given = read_given({"backlog": "true", "BACKLOG_QUEUE_COUNT": "2"}, ENVIRONMENT, Use.READ)
    plan = plan_read(given, None)
    assert "fabrikam" == plan.connection.name
    assert [f"contoso/x-servicebus-transfer/{n}" for n in range(2)] == [queue.name for queue in plan.queues]


def test_no_repr_shows_a_secret_and_a_plan_keeps_it_on_its_way_to_a_task() -> None:
    given = read_given({"ServiceBusPrimary": NAMESPACE, "entity": "orders"}, ENVIRONMENT, Use.WRITE)
    plan = plan_write(given, None)
    source = ServiceBusDataSource({"ServiceBusPrimary": NAMESPACE})
    assert KEY not in f"{given!r} {plan!r} {source!r} {source.options!r}"
    arrived = pickle.loads(pickle.dumps(plan))
    assert plan == arrived
    assert arrived.settings.primary.connection_string.reveal().endswith(KEY)
