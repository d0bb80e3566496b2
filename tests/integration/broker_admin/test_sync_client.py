"""ServiceBusAdministrationClient does its whole work against the broker, over HTTPS on the AMQP port."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus.management import (
    AccessRights,
    ApiVersion,
    AuthorizationRule,
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from local.broker.descriptions import QueueDescription

if TYPE_CHECKING:
    from tests.integration.broker_admin.conftest import Administration

#: TimeSpan.MaxValue as Python has it, rounded to microseconds.
FOREVER = timedelta(days=10675199, hours=2, minutes=48, seconds=5, microseconds=477581)


async def test_backlog_queues_are_made_as_the_pair_wants_them(standard: Administration) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        path = "contoso/x-servicebus-transfer/0"
        made = client.create_queue(
            path,
            max_size_in_megabytes=5120,
            max_delivery_count=2147483647,
            default_message_time_to_live=FOREVER,
            auto_delete_on_idle=FOREVER,
            lock_duration=timedelta(minutes=1),
            dead_lettering_on_message_expiration=True,
            enable_batched_operations=True,
        )
        found = client.get_queue(path)
        assert dict(found) == dict(made)
        assert (found.max_size_in_megabytes, found.max_delivery_count) == (5120, 2147483647)
        assert (found.default_message_time_to_live, found.auto_delete_on_idle) == (FOREVER, FOREVER)
        assert [queue.name for queue in client.list_queues()] == [path]
        with pytest.raises(ResourceExistsError):
            client.create_queue(path)

    await standard.run(work)


async def test_the_longest_duration_given_as_text_is_refused_as_in_azure(standard: Administration) -> None:
    """The SDK rounds the text up beyond what the service can hold; it only corrects a timedelta."""

    def work(client: ServiceBusAdministrationClient) -> None:
        with pytest.raises(HttpResponseError, match="too long"):
            client.create_queue("q", default_message_time_to_live="P10675199DT2H48M5.4775807S")

    await standard.run(work)


async def test_what_is_read_can_be_written_back(standard: Administration) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        queue = client.create_queue("q", requires_session=True, enable_partitioning=True, user_metadata="<&>")
        topic = client.create_topic("t", support_ordering=False)
        subscription = client.create_subscription("t", "s", lock_duration="PT13S")
        client.update_queue(queue)
        client.update_topic(topic)
        client.update_subscription("t", subscription)
        assert dict(client.get_queue("q")) == dict(queue)
        assert dict(client.get_topic("t")) == dict(topic)
        assert dict(client.get_subscription("t", "s")) == dict(subscription)
        client.update_queue(queue, max_delivery_count=3, status="SendDisabled")
        changed = client.get_queue("q")
        assert (changed.max_delivery_count, changed.status) == (3, "SendDisabled")

    await standard.run(work)


async def test_lists_longer_than_a_page_are_complete(standard: Administration) -> None:
    for number in range(250):
        standard.served.core.create_queue(f"q{number:03}", QueueDescription())

    def work(client: ServiceBusAdministrationClient) -> list[str]:
        return [queue.name for queue in client.list_queues()]

    assert await standard.run(work) == [f"q{number:03}" for number in range(250)]


async def test_rules_keep_their_filters_actions_and_typed_values(standard: Administration) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        client.create_topic("t")
        client.create_subscription("t", "s")
        values: dict[str, str | int | float | bool | datetime | timedelta] = {
            "text": "<&> ns1:x",
            "int": 2,
            "long": 2**40,
            "double": 1.5,
            "bool": False,
            "date": datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC),
            "span": timedelta(days=1, hours=2),
        }
        client.create_rule("t", "s", "correlation", filter=CorrelationRuleFilter(label="l", properties=dict(values)))
        sql = SqlRuleFilter("a = @p AND b LIKE 'x%'", parameters={"@p": 5})
        client.create_rule("t", "s", "sql", filter=sql, action=SqlRuleAction("SET c = @q", parameters={"@q": "v"}))
        client.create_rule("t", "s", "none", filter=FalseRuleFilter())
        rules = {rule.name: rule for rule in client.list_rules("t", "s")}
        assert list(rules) == ["$Default", "correlation", "sql", "none"]
        assert isinstance(rules["$Default"].filter, TrueRuleFilter)
        assert isinstance(rules["none"].filter, FalseRuleFilter)
        found = rules["correlation"].filter
        assert isinstance(found, CorrelationRuleFilter)
        # The SDK strips the text "ns1:" out of every body it sends.
        assert found.properties == values | {"text": "<&> x"}
        rule = rules["sql"]
        assert isinstance(rule.filter, SqlRuleFilter)
        assert rule.action is not None
        assert rule.filter.sql_expression == "a = @p AND b LIKE 'x%'"
        assert (rule.filter.parameters, rule.action.parameters) == ({"@p": 5}, {"@q": "v"})
        client.update_rule("t", "s", rule, filter=SqlRuleFilter("b = 1"), action=None)
        assert client.get_rule("t", "s", "sql").action is None
        with pytest.raises(HttpResponseError, match="At position 5"):
            client.create_rule("t", "s", "bad", filter=SqlRuleFilter("a = "))
        counts = client.get_topic_runtime_properties("t")
        assert (counts.sql_filter_count, counts.correlation_filter_count, counts.subscription_count) == (3, 1, 1)

    await standard.run(work)


async def test_errors_are_the_exceptions_that_the_sdk_documents(standard: Administration) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        for call in (client.get_queue, client.get_topic, client.delete_queue, client.get_queue_runtime_properties):
            with pytest.raises(ResourceNotFoundError):
                call("missing")
        with pytest.raises(ResourceNotFoundError):
            client.get_subscription("missing", "s")
        with pytest.raises(HttpResponseError, match="LockDuration"):
            client.create_queue("q", lock_duration=timedelta(days=25))
        with pytest.raises(HttpResponseError, match="Premium"):
            client.create_queue("q", max_message_size_in_kilobytes=1024)

    await standard.run(work)


async def test_forwarding_shows_full_addresses(standard: Administration) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        client.create_queue("target")
        made = client.create_queue("source", forward_to="target", forward_dead_lettered_messages_to="target")
        address = f"sb://127.0.0.1:{standard.served.amqp_port}/target"
        assert (made.forward_to, made.forward_dead_lettered_messages_to) == (address, address)
        client.update_queue(made, forward_to=None, forward_dead_lettered_messages_to=None)
        found = client.get_queue("source")
        assert (found.forward_to, found.forward_dead_lettered_messages_to) == (None, None)

    await standard.run(work)


async def test_premium_has_large_messages_and_no_partitions(premium: Administration) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        assert client.get_namespace_properties().messaging_sku == "Premium"
        assert client.create_queue("q", max_message_size_in_kilobytes=12345).max_message_size_in_kilobytes == 12345
        topic = client.create_topic("t")
        assert topic.max_message_size_in_kilobytes == 1024
        client.update_topic(topic, max_message_size_in_kilobytes=54321)
        assert client.get_topic("t").max_message_size_in_kilobytes == 54321
        for size_kb in (1023, 102401):
            with pytest.raises(HttpResponseError):
                client.create_queue("bad", max_message_size_in_kilobytes=size_kb)
        with pytest.raises(HttpResponseError):
            client.create_queue("bad", enable_partitioning=True)

    await premium.run(work)


@pytest.mark.parametrize("version", list(ApiVersion))
async def test_every_version_of_the_api_works(standard: Administration, version: ApiVersion) -> None:
    def work(_: ServiceBusAdministrationClient) -> None:
        with ServiceBusAdministrationClient.from_connection_string(
            standard.served.connection_string, api_version=version, connection_verify=standard.authority
        ) as client:
            client.create_topic("t")
            client.create_subscription("t", "s")
            assert client.get_subscription_runtime_properties("t", "s").active_message_count == 0
            assert [topic.name for topic in client.list_topics()] == ["t"]
            client.delete_topic("t")

    await standard.run(work)


async def test_a_wrong_key_is_an_authentication_error(standard: Administration) -> None:
    def work(_: ServiceBusAdministrationClient) -> None:
        endpoint = f"Endpoint=sb://127.0.0.1:{standard.served.amqp_port}/"
        for name, key in (("RootManageSharedAccessKey", "wrong"), ("invalid", "invalid")):
            with (
                ServiceBusAdministrationClient.from_connection_string(
                    f"{endpoint};SharedAccessKeyName={name};SharedAccessKey={key}", connection_verify=standard.authority
                ) as client,
                pytest.raises(ClientAuthenticationError),
            ):
                client.create_queue("q")

    await standard.run(work)


async def test_an_entity_key_without_manage_may_not_administer(standard: Administration) -> None:
    def work(client: ServiceBusAdministrationClient) -> None:
        rule = AuthorizationRule(
            type="SharedAccessAuthorizationRule",
            key_name="listener",
            claim_type="SharedAccessKey",
            claim_value="None",
            rights=[AccessRights.LISTEN],
            primary_key="cHJpbWFyeQ==",
            secondary_key="c2Vjb25kYXJ5",
        )
        made = client.create_queue("q", authorization_rules=[rule])
        assert [found.key_name for found in made.authorization_rules or []] == ["listener"]
        with (
            ServiceBusAdministrationClient.from_connection_string(
                f"Endpoint=sb://127.0.0.1:{standard.served.amqp_port}/q;SharedAccessKeyName=listener;"
                "SharedAccessKey=cHJpbWFyeQ==",
                connection_verify=standard.authority,
            ) as listener,
            pytest.raises(ClientAuthenticationError),
        ):
            listener.get_queue("q")

    await standard.run(work)


async def test_two_namespaces_do_not_see_each_other(standard: Administration, premium: Administration) -> None:
    await standard.run(lambda client: client.create_queue("q"))
    assert await premium.run(lambda client: [queue.name for queue in client.list_queues()]) == []
