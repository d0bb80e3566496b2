"""Whatever is sent to the administration API: a status, a well-formed body, and a namespace that still works."""

from __future__ import annotations

import string
from datetime import UTC, timedelta
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from local.broker.admin import AdminApi
from local.broker.admin.elements import read_xml
from local.broker.auth import KeyRing, SharedAccessKey, sign_sas
from local.broker.clock import ManualClock
from local.broker.descriptions import (
    CorrelationFilter,
    FalseFilter,
    FilterValue,
    RuleDescription,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from local.broker.durations import format_duration, parse_duration
from local.broker.errors import InvalidDescription
from local.broker.http import Request
from local.broker.journal import MemoryJournal
from local.broker.namespace import Namespace

CLOCK = ManualClock()
TOKEN = sign_sas("https://h", "k", "secret", int(CLOCK.now()) + 3600)
HEAD = '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
SPACES = (
    'xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" '
    'xmlns:i="http://www.w3.org/2001/XMLSchema-instance" xmlns:x="http://www.w3.org/2001/XMLSchema"'
)


def fresh_api() -> AdminApi:
    keys = KeyRing([SharedAccessKey(name="k", primary="secret")])
    namespace = Namespace("n", clock=CLOCK, journal=MemoryJournal(), keys=keys)
    return AdminApi(namespace, make_key=lambda: "made")


def request(method: str, path: str, body: bytes = b"", *, update: bool = False, query: str = "2024-05") -> Request:
    headers = {"host": "h", "authorization": TOKEN} | ({"if-match": "*"} if update else {})
    return Request(method=method, raw_path=path, query={"api-version": query}, headers=headers, body=body)


def body(kind: str, inner: str) -> bytes:
    return f"{HEAD}<{kind} {SPACES}>{inner}</{kind}></content></entry>".encode(errors="replace")


kinds = st.sampled_from(["QueueDescription", "TopicDescription", "SubscriptionDescription", "RuleDescription"])
properties = st.sampled_from(
    [
        "LockDuration",
        "MaxSizeInMegabytes",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "MaxDeliveryCount",
        "AuthorizationRules",
        "Status",
        "AutoDeleteOnIdle",
        "ForwardTo",
        "UserMetadata",
        "CountDetails",
        "MaxMessageSizeInKilobytes",
        "DefaultRuleDescription",
        "Name",
        "Unknown",
    ]
)
contents = st.sampled_from(
    [
        "",
        "true",
        "PT1M",
        "P99999999D",
        "1024",
        "-1",
        "99999999999999999999",
        "Active",
        "q",
        "sb://h/q",
        "sb://[",
        '<Filter i:type="SqlFilter"><SqlExpression>a = @p</SqlExpression></Filter>',
        '<Filter i:type="CorrelationFilter"><Properties><K><Key>a</Key><Value i:type="x:int">1</Value></K></Properties>'
        "</Filter>",
        "<AuthorizationRule><KeyName>k</KeyName><Rights><AccessRights>Send</AccessRights></Rights></AuthorizationRule>",
        "&#x41;",
        "<a/>",
    ]
)
pairs = st.tuples(properties, contents).map(lambda pair: f"<{pair[0]}>{pair[1]}</{pair[0]}>")
inners = st.lists(st.one_of(pairs, contents), max_size=5).map("".join)
paths = st.sampled_from(
    ["/", "/q", "/t", "/a/b", "/a%2Fb", "/t/subscriptions/s", "/t/subscriptions/s/rules/r", "/t/subscriptions/",
     "/%ff", "/$Resources/queues", "/$namespaceinfo", "//", "/t/subscriptions/s/rules"]
)  # fmt: skip
bodies = st.one_of(st.builds(body, kinds, inners), st.binary(max_size=60), st.text(max_size=40).map(str.encode))
requests = st.builds(
    request, st.sampled_from(["GET", "PUT", "PUT", "PUT", "DELETE", "POST"]), paths, bodies, update=st.booleans()
)


@given(asked=st.lists(requests, max_size=12))
def test_any_sequence_of_requests_is_answered_properly(asked: list[Request]) -> None:
    api = fresh_api()
    assert api.handle(request("PUT", "/t", body("TopicDescription", ""))).status == 201
    for one in asked:
        response = api.handle(one)
        assert response.status in (200, 201, 400, 404, 409, 501)
        if response.body:
            ElementTree.fromstring(response.body)
    for path in ("/$Resources/queues", "/$Resources/topics"):
        assert api.handle(request("GET", path)).status == 200


@given(path=st.text(alphabet=string.printable, max_size=40), query=st.text(max_size=12), data=st.binary(max_size=30))
def test_any_path_version_and_body_is_answered_properly(path: str, query: str, data: bytes) -> None:
    api = fresh_api()
    for method in ("GET", "PUT", "DELETE"):
        response = api.handle(request(method, "/" + path, data, query=query))
        assert response.status in (200, 400, 401, 404)


@given(data=st.one_of(st.binary(max_size=200), st.text(alphabet="<>/a&;!\"'= []DOCTYPE?", max_size=80).map(str.encode)))
def test_any_bytes_are_xml_or_refused(data: bytes) -> None:
    try:
        root = read_xml(data)
    except InvalidDescription:
        return
    assert root.name


xml_text = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1, max_size=20
)
values: st.SearchStrategy[FilterValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    xml_text,
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(timedelta(0), timedelta(days=10**6)),
)
bags = st.dictionaries(xml_text, values, max_size=3).map(lambda bag: tuple(bag.items()))
parameters = st.dictionaries(st.sampled_from(["@a", "@b"]), values, max_size=2).map(lambda bag: tuple(bag.items()))
filters = st.one_of(
    st.just(TrueFilter()),
    st.just(FalseFilter()),
    st.builds(SqlFilter, expression=st.just("a = 1"), parameters=parameters),
    st.builds(CorrelationFilter, label=xml_text, session_id=st.one_of(st.none(), xml_text), properties=bags),
)
actions = st.one_of(st.none(), st.builds(SqlRuleAction, expression=st.just("SET a = 1"), parameters=parameters))


@given(rule_filter=filters, action=actions)
def test_what_is_written_about_a_rule_reads_back_the_same(rule_filter: object, action: SqlRuleAction | None) -> None:
    api = fresh_api()
    namespace = api._namespace
    api.handle(request("PUT", "/t", body("TopicDescription", "")))
    api.handle(request("PUT", "/t/subscriptions/s", body("SubscriptionDescription", "")))
    rule = RuleDescription(name="r", filter=rule_filter, action=action)  # type: ignore[arg-type]
    namespace.create_rule("t", "s", rule)
    written = api.handle(request("GET", "/t/subscriptions/s/rules/r")).body
    assert api.handle(request("PUT", "/t/subscriptions/s/rules/r", written, update=True)).status == 200
    assert namespace.rule("t", "s", "r").description == rule


@given(duration=st.timedeltas(timedelta(0), timedelta(days=10**7)))
def test_a_written_duration_reads_back_the_same(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
