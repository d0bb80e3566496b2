"""The administration API, request by request: entities are created, read, listed, changed, deleted, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from local.broker.descriptions import AuthorizationRule

if TYPE_CHECKING:
    from tests.unit.broker_admin.conftest import Admin, MakeAdmin

QUEUE, TOPIC, SUBSCRIPTION, RULE = "QueueDescription", "TopicDescription", "SubscriptionDescription", "RuleDescription"

QUEUE_ORDER = (
    "LockDuration MaxSizeInMegabytes RequiresDuplicateDetection RequiresSession DefaultMessageTimeToLive "
    "DeadLetteringOnMessageExpiration DuplicateDetectionHistoryTimeWindow MaxDeliveryCount EnableBatchedOperations "
    "SizeInBytes MessageCount IsAnonymousAccessible AuthorizationRules Status CreatedAt UpdatedAt AccessedAt "
    "SupportOrdering CountDetails AutoDeleteOnIdle EnablePartitioning EntityAvailabilityStatus EnableExpress "
    "ForwardTo UserMetadata ForwardDeadLetteredMessagesTo MaxMessageSizeInKilobytes"
)
TOPIC_ORDER = (
    "DefaultMessageTimeToLive MaxSizeInMegabytes RequiresDuplicateDetection DuplicateDetectionHistoryTimeWindow "
    "EnableBatchedOperations SizeInBytes FilteringMessagesBeforePublishing IsAnonymousAccessible AuthorizationRules "
    "Status CreatedAt UpdatedAt AccessedAt SupportOrdering CountDetails SubscriptionCount SqlFilterCount "
    "CorrelationFilterCount AutoDeleteOnIdle EnablePartitioning EntityAvailabilityStatus "
    "EnableSubscriptionPartitioning EnableExpress UserMetadata MaxMessageSizeInKilobytes"
)
SUBSCRIPTION_ORDER = (
    "LockDuration RequiresSession DefaultMessageTimeToLive DeadLetteringOnMessageExpiration "
    "DeadLetteringOnFilterEvaluationExceptions MessageCount MaxDeliveryCount EnableBatchedOperations Status ForwardTo "
    "CreatedAt UpdatedAt AccessedAt CountDetails ForwardDeadLetteredMessagesTo AutoDeleteOnIdle "
    "EntityAvailabilityStatus UserMetadata"
)


def test_a_new_queue_has_the_defaults_of_the_service(admin: Admin) -> None:
    made = admin.put("/orders", QUEUE)
    assert made.status == 201
    expected = {
        "LockDuration": "PT1M",
        "MaxSizeInMegabytes": "1024",
        "RequiresSession": "false",
        "DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S",
        "DuplicateDetectionHistoryTimeWindow": "PT10M",
        "MaxDeliveryCount": "10",
        "EnableBatchedOperations": "true",
        "Status": "Active",
        "EntityAvailabilityStatus": "Available",
        "MessageCount": "0",
        "MaxMessageSizeInKilobytes": "256",
        "ForwardTo": None,
    }
    for answer in (made, admin.get("/orders")):
        assert {name: answer.value(name) for name in expected} == expected
    assert admin.get("/orders").response.content_type.startswith("application/atom+xml")


def test_descriptions_are_written_in_the_order_that_clients_expect(admin: Admin) -> None:
    admin.put("/target", QUEUE)
    forwards = "<ForwardTo>target</ForwardTo><ForwardDeadLetteredMessagesTo>target</ForwardDeadLetteredMessagesTo>"
    metadata = "<UserMetadata>m</UserMetadata>"
    admin.put("/t", TOPIC, metadata)
    assert admin.put("/q", QUEUE, forwards + metadata).names() == QUEUE_ORDER.split()
    assert admin.get("/t").names() == TOPIC_ORDER.split()
    assert admin.put("/t/subscriptions/s", SUBSCRIPTION, forwards + metadata).names() == SUBSCRIPTION_ORDER.split()
    assert admin.get("/t/subscriptions/s/rules/$Default").names() == ["Filter", "Action", "CreatedAt", "Name"]


def test_elements_may_come_in_any_order_and_read_only_ones_are_ignored(admin: Admin) -> None:
    inner = (
        "<UserMetadata>&lt;x&gt; &amp; y</UserMetadata><MessageCount>99</MessageCount>"
        "<MaxDeliveryCount>3</MaxDeliveryCount>"
        "<CreatedAt>2001-01-01T00:00:00Z</CreatedAt><LockDuration>PT30S</LockDuration>"
    )
    made = admin.put("/q", QUEUE, inner)
    shown = [made.value(name) for name in ("UserMetadata", "MaxDeliveryCount", "LockDuration", "MessageCount")]
    assert shown == ["<x> & y", "3", "PT30S", "0"]


def test_the_backlog_queue_of_a_pair_is_found_by_both_spellings_of_its_path(admin: Admin) -> None:
    path = "contoso/x-servicebus-transfer/0"
    inner = (
        "<LockDuration>PT1M</LockDuration><MaxSizeInMegabytes>5120</MaxSizeInMegabytes>"
        "<DefaultMessageTimeToLive>P10675199DT2H48M5.4775807S</DefaultMessageTimeToLive>"
        "<DeadLetteringOnMessageExpiration>true</DeadLetteringOnMessageExpiration>"
        "<MaxDeliveryCount>2147483647</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations>"
        "<AutoDeleteOnIdle>P10675199DT2H48M5.4775807S</AutoDeleteOnIdle>"
    )
    assert admin.put("/contoso%2Fx-servicebus-transfer%2F0", QUEUE, inner).status == 201
    for spelled in (f"/{path}", "/contoso%2Fx-servicebus-transfer%2F0", "/Contoso/X-ServiceBus-Transfer/0"):
        found = admin.get(spelled)
        assert (found.status, found.value("MaxDeliveryCount"), found.value("MaxSizeInMegabytes")) == (
            200,
            "2147483647",
            "5120",
        )
    assert admin.get("/$Resources/queues").titles == [path]


def test_creating_twice_is_a_conflict_also_between_queue_and_topic(admin: Admin) -> None:
    admin.put("/a", QUEUE)
    for kind in (QUEUE, TOPIC):
        again = admin.put("/A", kind)
        assert (again.status, again.detail[:13]) == (409, "SubCode=40900")


def test_an_update_changes_what_it_says_and_clears_forwarding(admin: Admin) -> None:
    admin.put("/q", QUEUE, "<MaxDeliveryCount>3</MaxDeliveryCount>")
    admin.put("/target", QUEUE)
    updated = admin.put("/q", QUEUE, "<ForwardTo>target</ForwardTo><LockDuration>PT2M</LockDuration>", update=True)
    assert updated.status == 200
    shown = [updated.value(name) for name in ("ForwardTo", "LockDuration", "MaxDeliveryCount")]
    assert shown == ["sb://localhost:5672/target", "PT2M", "3"]
    again = admin.put("/q", QUEUE, "", update=True)
    assert [again.value(name) for name in ("ForwardTo", "LockDuration")] == [None, "PT2M"]


def test_an_update_moves_the_time_of_change(admin: Admin) -> None:
    created = admin.put("/q", QUEUE).value("UpdatedAt")
    admin.clock.advance(10)
    updated = admin.put("/q", QUEUE, "", update=True)
    assert updated.value("CreatedAt") == created
    assert updated.value("UpdatedAt") != created


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/x", QUEUE), ("/x", TOPIC), ("/t/subscriptions/x", SUBSCRIPTION), ("/t/subscriptions/s/rules/x", RULE)],
)
def test_what_does_not_exist_cannot_be_read_updated_or_deleted(admin: Admin, path: str, kind: str) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    answers = [admin.get(path), admin.put(path, kind, update=True), admin.delete(path)]
    assert [answer.status for answer in answers] == [404, 404, 404]


def test_a_queue_is_not_a_topic(admin: Admin) -> None:
    admin.put("/q", QUEUE)
    assert admin.put("/q", TOPIC, update=True).status == 404
    assert admin.get("/q/subscriptions").status == 404
    assert admin.put("/q/subscriptions/s", SUBSCRIPTION).status == 404


@pytest.mark.parametrize(
    ("inner", "complaint"),
    [
        ("<RequiresSession>true</RequiresSession>", "RequiresSession"),
        ("<RequiresDuplicateDetection>true</RequiresDuplicateDetection>", "RequiresDuplicateDetection"),
        ("<EnablePartitioning>true</EnablePartitioning>", "EnablePartitioning"),
        ("<LockDuration>P25D</LockDuration>", "LockDuration"),
        ("<LockDuration>a minute</LockDuration>", "LockDuration"),
        ("<MaxDeliveryCount>many</MaxDeliveryCount>", "MaxDeliveryCount"),
        ("<MaxDeliveryCount>0</MaxDeliveryCount>", "MaxDeliveryCount"),
        ("<EnableExpress>perhaps</EnableExpress>", "EnableExpress"),
        ("<Status>Sleeping</Status>", "Status"),
        ("<IsAnonymousAccessible>true</IsAnonymousAccessible>", "IsAnonymousAccessible"),
        ("<MaxMessageSizeInKilobytes>1024</MaxMessageSizeInKilobytes>", "Premium"),
        ("<ForwardTo>nowhere</ForwardTo>", "nowhere"),
        ("<Colour>red</Colour>", "Colour"),
        ('<LockDuration xmlns="other">PT1M</LockDuration>', "LockDuration"),
        ("<MaxDeliveryCount>1</MaxDeliveryCount><MaxDeliveryCount>2</MaxDeliveryCount>", "more than once"),
    ],
)
def test_a_bad_update_is_refused_by_name_and_changes_nothing(admin: Admin, inner: str, complaint: str) -> None:
    before = admin.put("/q", QUEUE).response.body
    refused = admin.put("/q", QUEUE, inner, update=True)
    assert (refused.status, refused.detail[:13]) == (400, "SubCode=40000")
    assert complaint in refused.detail
    assert admin.get("/q").response.body == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"<entry/>",
        b'<feed xmlns="http://www.w3.org/2005/Atom"/>',
        b'<entry xmlns="http://www.w3.org/2005/Atom"/>',
        b'<entry xmlns="http://www.w3.org/2005/Atom"><content/></entry>',
        b'<entry xmlns="http://www.w3.org/2005/Atom"><content><QueueDescription/></content></entry>',
        b'<!DOCTYPE entry [<!ENTITY a "b">]><entry xmlns="http://www.w3.org/2005/Atom">&a;</entry>',
        b'<?xml version="1.0" encoding="unheard-of"?><entry/>',
        b"<a>" * 40 + b"</a>" * 40,
        b"<a>" + b"<b/>" * 6000 + b"</a>",
        b"\xff\xfe\x00",
    ],
)
def test_a_body_that_is_no_entry_is_refused(admin: Admin, body: bytes) -> None:
    refused = admin.call("PUT", "/q", body)
    assert (refused.status, refused.detail[:13]) == (400, "SubCode=40000")


@pytest.mark.parametrize("kind", [RULE, SUBSCRIPTION, "NamespaceInfo"])
def test_a_description_of_the_wrong_kind_is_refused(admin: Admin, kind: str) -> None:
    assert admin.put("/q", kind).status == 400


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", QUEUE),
        ("/a%20b", QUEUE),
        ("/" + "a" * 261, QUEUE),
        ("/t/subscriptions/", SUBSCRIPTION),
        ("/t/subscriptions/a%2Fb", SUBSCRIPTION),
        ("/t/subscriptions/" + "a" * 51, SUBSCRIPTION),
        ("/t/subscriptions/s/rules/", RULE),
        ("/t/subscriptions/s/rules/a%20b", RULE),
        ("/t/subscriptions", SUBSCRIPTION),
        ("/$namespaceinfo", QUEUE),
        ("/$Resources/queues", QUEUE),
    ],
)
def test_bad_names_are_refused(admin: Admin, path: str, kind: str) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    assert admin.put(path, kind).status == 400


def test_a_deleted_queue_is_gone(admin: Admin) -> None:
    admin.put("/q", QUEUE)
    deleted = admin.delete("/q")
    assert (deleted.status, deleted.response.body) == (200, b"")
    assert admin.get("/q").status == 404


def test_topics_subscriptions_and_rules_are_deleted(admin: Admin) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    admin.put("/t/subscriptions/s/rules/r", RULE)
    assert admin.delete("/t/subscriptions/s/rules/r").status == 200
    assert admin.get("/t/subscriptions/s/rules").titles == ["$Default"]
    assert admin.delete("/t/subscriptions/s").status == 200
    assert admin.get("/t/subscriptions").titles == []
    assert admin.delete("/t").status == 200
    assert admin.get("/$Resources/topics").titles == []


def test_lists_come_in_pages_and_the_second_link_leads_on(admin: Admin) -> None:
    for number in range(5):
        admin.put(f"/q{number}", QUEUE)
    first = admin.get("/$Resources/queues", _skip="0", _top="2")
    assert first.titles == ["q0", "q1"]
    assert first.links[1] == "https://localhost:5672/$Resources/queues?$skip=2&$top=2&api-version=2024-05"
    last = admin.get("/$Resources/queues", _skip="4", _top="2")
    assert (last.titles, len(last.links)) == (["q4"], 1)
    exact = admin.get("/$Resources/queues", _skip="3", _top="2")
    assert (exact.titles, len(exact.links)) == (["q3", "q4"], 1)
    assert admin.get("/$Resources/queues", _skip="9").titles == []
    assert admin.get("/$Resources/queues", _top="0").titles == []


def test_a_page_has_a_hundred_entries_at_most(admin: Admin) -> None:
    for number in range(101):
        admin.put(f"/q{number:03}", QUEUE)
    page = admin.get("/$Resources/queues", _top="1000")
    assert (len(page.titles), len(page.links)) == (100, 2)


@pytest.mark.parametrize("query", [{"_skip": "-1"}, {"_top": "-1"}, {"_top": "x"}, {"_skip": "1e3"}, {"_top": ""}])
def test_pages_that_make_no_sense_are_refused(admin: Admin, query: dict[str, str]) -> None:
    assert admin.get("/$Resources/queues", **query).status == 400


@pytest.mark.parametrize(
    ("expression", "titles"),
    [
        ("startswith(path, 'ord') eq true", ["orders", "Orders2"]),
        ("startswith(path,'ORD')", ["orders", "Orders2"]),
        ("STARTSWITH( path , 'ord' ) Eq False", ["invoices"]),
        ("startswith(name, '')", ["invoices", "orders", "Orders2"]),
        ("startswith(path, 'it''s')", []),
        ("", ["invoices", "orders", "Orders2"]),
    ],
)
def test_lists_can_be_filtered_by_the_start_of_the_path(admin: Admin, expression: str, titles: list[str]) -> None:
    for name in ("orders", "Orders2", "invoices"):
        admin.put(f"/{name}", QUEUE)
    assert admin.get("/$Resources/queues", _filter=expression).titles == titles


def test_a_filter_and_pages_work_together(admin: Admin) -> None:
    for number in range(4):
        admin.put(f"/a{number}", QUEUE)
        admin.put(f"/b{number}", QUEUE)
    page = admin.get("/$Resources/queues", _filter="startswith(path, 'b')", _skip="1", _top="2")
    assert (page.titles, len(page.links)) == (["b1", "b2"], 2)


@pytest.mark.parametrize("expression", ["messageCount gt 1", "startswith(path, x)", "startswith(path, 'a'", "x" * 500])
def test_other_filters_are_refused(admin: Admin, expression: str) -> None:
    assert admin.get("/$Resources/queues", _filter=expression).status == 400


@pytest.mark.parametrize(
    "path", ["/$Resources/rules", "/$Resources", "/t/subscriptions/s/r/x", "/t/subscriptions/s/rules/a/b"]
)
def test_paths_that_lead_nowhere_are_not_found(admin: Admin, path: str) -> None:
    admin.put("/t", TOPIC)
    assert admin.get(path).status == 404


def test_the_namespace_tells_about_itself(admin: Admin, make_admin: MakeAdmin) -> None:
    info = admin.get("/$namespaceinfo")
    assert [info.value(n) for n in ("Name", "MessagingSKU", "MessagingUnits", "NamespaceType")] == [
        "contoso",
        "Standard",
        None,
        "Messaging",
    ]
    premium = make_admin("Premium").get("/$NamespaceInfo")
    assert [premium.value(name) for name in ("MessagingSKU", "MessagingUnits")] == ["Premium", "1"]


def test_versions_differ_in_the_elements_that_came_later(admin: Admin) -> None:
    later = {"SqlFilterCount", "CorrelationFilterCount", "MaxMessageSizeInKilobytes"}
    admin.put("/t", TOPIC)
    seen = {}
    for admin.version in ("2017-04", "2021-05", "2024-05"):
        seen[admin.version] = later & set(admin.get("/t").names())
    assert seen == {"2017-04": set(), "2021-05": {"MaxMessageSizeInKilobytes"}, "2024-05": later}


def test_an_old_version_knows_nothing_of_message_sizes(make_admin: MakeAdmin) -> None:
    premium = make_admin("Premium")
    size = "<MaxMessageSizeInKilobytes>2048</MaxMessageSizeInKilobytes>"
    premium.version = "2017-04"
    assert premium.put("/q", QUEUE, size).status == 400
    premium.version = "2021-05"
    assert premium.put("/q", QUEUE, size).value("MaxMessageSizeInKilobytes") == "2048"
    assert premium.put("/q2", QUEUE).value("MaxMessageSizeInKilobytes") == "1024"


def test_an_unknown_version_is_refused_and_none_at_all_is_taken(admin: Admin) -> None:
    admin.version = "2099-01"
    assert "2099-01" in admin.get("/$namespaceinfo").detail
    admin.version = "2021-05"
    assert admin.get("/$namespaceinfo").status == 200


def test_the_size_of_a_partitioned_queue_is_shown_for_all_partitions_and_taken_back(admin: Admin) -> None:
    inner = "<MaxSizeInMegabytes>{}</MaxSizeInMegabytes><EnablePartitioning>true</EnablePartitioning>"
    assert admin.put("/q", QUEUE, inner.format(3072)).value("MaxSizeInMegabytes") == "49152"
    assert admin.put("/q", QUEUE, inner.format(49152), update=True).value("MaxSizeInMegabytes") == "49152"
    assert admin.namespace.queue("q").description.max_size_in_megabytes == 3072


def test_counts_of_filters_and_subscriptions_are_shown(admin: Admin) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    admin.put("/t/subscriptions/s/rules/r", RULE, '<Filter i:type="CorrelationFilter"><Label>x</Label></Filter>')
    topic = admin.get("/t")
    shown = [topic.value(name) for name in ("SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount")]
    assert shown == ["1", "1", "1"]


def test_a_subscription_may_start_with_a_rule_of_its_own(admin: Admin) -> None:
    admin.put("/t", TOPIC)
    rule = (
        '<DefaultRuleDescription><Filter i:type="SqlFilter"><SqlExpression>a = 1</SqlExpression></Filter>'
        "<Name>first</Name></DefaultRuleDescription>"
    )
    assert admin.put("/t/subscriptions/s", SUBSCRIPTION, rule).status == 201
    assert admin.get("/t/subscriptions/s/rules").titles == ["first"]


def test_rules_are_created_updated_and_keep_their_place(admin: Admin) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    sql = '<Filter i:type="SqlFilter"><SqlExpression>{}</SqlExpression></Filter>'
    for name in ("b", "a"):
        assert admin.put(f"/t/subscriptions/s/rules/{name}", RULE, sql.format("x = 1")).status == 201
    assert admin.put("/t/subscriptions/s/rules/B", RULE, sql.format("x = 2"), update=True).status == 200
    assert admin.get("/t/subscriptions/s/rules").titles == ["$Default", "b", "a"]
    assert b"x = 2" in admin.get("/t/subscriptions/s/rules/b").response.body
    assert admin.put("/t/subscriptions/s/rules/b", RULE).status == 409


@pytest.mark.parametrize(
    ("inner", "complaint"),
    [
        ('<Filter i:type="SqlFilter"><SqlExpression>a =</SqlExpression></Filter>', "At position 4"),
        ('<Filter i:type="SqlFilter"/>', "SqlExpression"),
        ('<Filter i:type="JmsFilter"/>', "JmsFilter"),
        ("<Filter/>", "type"),
        ('<Filter i:type="CorrelationFilter"/>', "at least one"),
        ('<Filter i:type="CorrelationFilter"><Colour>x</Colour></Filter>', "Colour"),
        ('<Action i:type="SqlRuleAction"><SqlExpression>a = 1</SqlExpression></Action>', "SET or REMOVE"),
        ('<Action i:type="Explode"/>', "Explode"),
        ("<Colour/>", "Colour"),
    ],
)
def test_rules_that_make_no_sense_are_refused(admin: Admin, inner: str, complaint: str) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    refused = admin.put("/t/subscriptions/s/rules/r", RULE, inner)
    assert refused.status == 400
    assert complaint in refused.detail


def value(kind: str, text: str) -> str:
    held = f'<Key>k</Key><Value xmlns:x="x" i:type="x:{kind}">{text}</Value>'
    pair = f"<KeyValueOfstringanyType>{held}</KeyValueOfstringanyType>"
    return f'<Filter i:type="CorrelationFilter"><Properties>{pair}</Properties></Filter>'


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("string", " a b ", 'x:string"> a b <'),
        ("int", "5", 'x:int">5<'),
        ("long", "5000000000", 'x:long">5000000000<'),
        ("short", "-3", 'x:int">-3<'),
        ("double", "1.5", 'x:double">1.5<'),
        ("double", "-INF", 'x:double">-INF<'),
        ("boolean", "false", 'x:boolean">false<'),
        ("dateTime", "2020-07-05T11:12:13", 'x:dateTime">2020-07-05T11:12:13<'),
        ("dateTime", "2020-07-05T13:12:13+02:00", 'x:dateTime">2020-07-05T11:12:13Z<'),
        ("duration", "P1DT2H3M", 'x:duration">P1DT2H3M<'),
    ],
)
def test_typed_values_keep_their_type(admin: Admin, kind: str, text: str, shown: str) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    made = admin.put("/t/subscriptions/s/rules/r", RULE, value(kind, text))
    assert made.status == 201
    assert shown in made.response.body.decode()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "x"),
        ("long", "9223372036854775808"),
        ("double", "much"),
        ("boolean", "perhaps"),
        ("dateTime", "yesterday"),
        ("dateTime", "0001-01-01T00:00:00+14:00"),
        ("duration", "long"),
        ("guid", "1"),
    ],
)
def test_values_that_are_not_of_their_type_are_refused(admin: Admin, kind: str, text: str) -> None:
    admin.put("/t", TOPIC)
    admin.put("/t/subscriptions/s", SUBSCRIPTION)
    assert admin.put("/t/subscriptions/s/rules/r", RULE, value(kind, text)).status == 400


AUTHORIZATION_RULE = (
    '<AuthorizationRules><AuthorizationRule i:type="SharedAccessAuthorizationRule">'
    "<ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue>"
    "<Rights><AccessRights>Send</AccessRights></Rights><KeyName>sender</KeyName>{}</AuthorizationRule></AuthorizationRules>"
)


def test_authorization_rules_are_kept_and_missing_keys_are_made_once(admin: Admin) -> None:
    admin.put("/q", QUEUE, AUTHORIZATION_RULE.format("<PrimaryKey>mine</PrimaryKey>"))
    expected = AuthorizationRule(key_name="sender", primary_key="mine", secondary_key="generated", rights=("Send",))
    assert admin.namespace.queue("q").description.authorization_rules == (expected,)
    admin.put("/q", QUEUE, AUTHORIZATION_RULE.format(""), update=True)
    assert admin.namespace.queue("q").description.authorization_rules == (expected,)
    admin.put("/q", QUEUE, "", update=True)
    assert admin.namespace.queue("q").description.authorization_rules == (expected,)
    admin.put("/q", QUEUE, "<AuthorizationRules/>", update=True)
    assert admin.namespace.queue("q").description.authorization_rules == ()


def test_a_bad_authorization_rule_is_refused(admin: Admin) -> None:
    strange = '<AuthorizationRules><AuthorizationRule i:type="AllowRule"/></AuthorizationRules>'
    assert "AllowRule" in admin.put("/q", QUEUE, strange).detail
    assert admin.put("/q", QUEUE, "<AuthorizationRules><AuthorizationRule/></AuthorizationRules>").status == 400


# -- who may


@pytest.mark.parametrize("authorization", ["", "Bearer", "Basic abc", "SharedAccessSignature sr=x", "Bearer a.b.c"])
def test_without_a_good_token_nothing_is_told(admin: Admin, authorization: str) -> None:
    refused = admin.call("GET", "/$namespaceinfo", headers={"authorization": authorization})
    assert (refused.status, refused.detail[:13]) == (401, "SubCode=40100")


def test_every_form_of_token_is_taken(admin: Admin) -> None:
    for authorization in (admin.token(), f"Bearer {admin.token()}", admin.bearer()):
        assert admin.call("GET", "/$namespaceinfo", headers={"authorization": authorization}).status == 200


def test_a_key_that_may_only_send_may_not_administer(admin: Admin) -> None:
    admin.put("/q", QUEUE, AUTHORIZATION_RULE.format("<PrimaryKey>mine</PrimaryKey>"))
    admin.keys.entity_rules = lambda path: admin.namespace.queue("q").description.authorization_rules
    token = admin.token("https://localhost:5672/q", "sender", "mine")
    refused = admin.call("GET", "/q", headers={"authorization": token})
    assert refused.status == 401
    assert "Manage" in refused.detail


def test_a_token_for_one_queue_does_not_open_another(admin: Admin) -> None:
    admin.put("/q", QUEUE)
    token = {"authorization": admin.token("https://localhost:5672/q")}
    assert admin.call("GET", "/q", headers=token).status == 200
    assert admin.call("GET", "/other", headers=token).status == 401
    assert admin.call("GET", "/$Resources/queues", headers=token).status == 401


def test_forwarding_needs_the_right_to_send_to_the_target(admin: Admin) -> None:
    admin.put("/target", QUEUE)
    address = "sb://localhost:5672/target"
    inner = f"<ForwardTo>{address}</ForwardTo>"
    narrow = {"authorization": admin.token("https://localhost:5672/q")}
    assert admin.put("/q", QUEUE, inner, headers=narrow).status == 401
    wrong = {"servicebussupplementaryauthorization": admin.token("sb://localhost:5672/other")}
    assert admin.put("/q", QUEUE, inner, headers=narrow | wrong).status == 401
    right = {"servicebussupplementaryauthorization": admin.token(address)}
    assert admin.put("/q", QUEUE, inner, headers=narrow | right).status == 201


def test_dead_letters_are_forwarded_by_a_token_of_their_own(admin: Admin) -> None:
    admin.put("/target", QUEUE)
    inner = "<ForwardDeadLetteredMessagesTo>target</ForwardDeadLetteredMessagesTo>"
    header = "servicebusdlqsupplementaryauthorization"
    bad = {header: admin.token("sb://localhost:5672/other")}
    assert admin.put("/q", QUEUE, inner, headers=bad).status == 401
    assert admin.put("/q", QUEUE, inner, headers={header: admin.bearer()}).status == 201


# -- other methods


@pytest.mark.parametrize(("method", "status"), [("POST", 501), ("PATCH", 405), ("HEAD", 405), ("OPTIONS", 405)])
def test_other_methods_are_refused_by_name(admin: Admin, method: str, status: int) -> None:
    assert admin.call(method, "/q/messages").status == status


def test_a_tag_is_not_understood(admin: Admin) -> None:
    admin.put("/q", QUEUE)
    refused = admin.put("/q", QUEUE, headers={"if-match": '"tag"'})
    assert (refused.status, "If-Match" in refused.detail) == (400, True)


def test_text_that_xml_cannot_hold_does_not_break_an_answer(admin: Admin) -> None:
    admin.put("/q", QUEUE)
    queue = admin.namespace.queue("q")
    admin.namespace.update_queue("q", replace(queue.description, user_metadata="a\x00b\ud800<&>\"'"))
    assert admin.get("/q").value("UserMetadata") == "a\ufffdb\ufffd<&>\"'"
