import pytest

from local.host.errors import ConfigurationError
from local.host.routes import Route, Router, parse_template


@pytest.mark.parametrize(
    ("template", "path", "expected"),
    [
        ("orders", "orders", {}),
        ("orders", "ORDERS/", {}),
        ("orders", "orders/1", None),
        ("orders/{id}", "orders/a%20b", {"id": "a b"}),
        ("orders/{id}", "orders", None),
        ("orders/{id}", "orders/a/b", None),
        ("orders/{id}", "orders/a%2Fb", {"id": "a%2Fb"}),
        ("orders/{id?}", "orders", {}),
        ("orders/{id?}", "orders/7", {"id": "7"}),
        ("orders/{id=5}", "orders", {"id": "5"}),
        ("orders/{id:int}", "orders/12", {"id": "12"}),
        ("orders/{id:int}", "orders/x", None),
        ("orders/{id:int?}", "orders", {}),
        ("orders/{id:int?}", "orders/x", None),
        ("orders/{id:int:min(5)}", "orders/4", None),
        ("orders/{id:range(1,3)}", "orders/3", {"id": "3"}),
        ("o/{id:guid}", "o/8c2f6bb8-0f5c-4f7e-9f7e-0c1e4f0d5a11", {"id": "8c2f6bb8-0f5c-4f7e-9f7e-0c1e4f0d5a11"}),
        ("orders/{id:guid}", "orders/8c2f", None),
        ("orders/{s:alpha:length(2,3)}", "orders/ab", {"s": "ab"}),
        ("orders/{s:alpha:length(2,3)}", "orders/abcd", None),
        ("orders/{s:regex(^\\d{{3}}$)}", "orders/123", {"s": "123"}),
        ("orders/{s:regex(^\\d{{3}}$)}", "orders/1234", None),
        ("orders/{b:bool}", "orders/True", {"b": "True"}),
        ("orders/{d:datetime}", "orders/2026-11-18", {"d": "2026-11-18"}),
        ("orders/{n:double}", "orders/1.5", {"n": "1.5"}),
        ("orders/{n:long}", "orders/99999999999", {"n": "99999999999"}),
        ("orders/{n:int}", "orders/99999999999", None),
        ("files/{*path}", "files/a/b/c", {"path": "a/b/c"}),
        ("files/{*path}", "files", {}),
        ("files/{**path}", "files/", {}),
        ("{*path}", "any/thing", {"path": "any/thing"}),
        ("files/{name}.{ext}", "files/a.b.txt", {"name": "a", "ext": "b.txt"}),
        ("a/{x}/b/{y}", "a/1/b/2", {"x": "1", "y": "2"}),
    ],
)
def test_templates_match_as_the_documentation_says(template: str, path: str, expected: dict[str, str] | None) -> None:
    assert expected == parse_template(template).match(path)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{*all}/more", "catch-all"),
        ("{id:nope}", "nope"),
        ("{id}/{ID}", "twice"),
        ("a/{id", "brace"),
        ("a/{x:min(abc)}", "min"),
        ("a/{x:regex([)}", "regex"),
    ],
)
def test_a_wrong_template_is_one_clear_line(template: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_template(template)


def route(template: str, *methods: str) -> Route[str]:
    return Route(template=parse_template(template), methods=frozenset(methods), target=template)


def test_the_most_specific_route_wins_whatever_the_order() -> None:
    router = Router([route("{*all}"), route("o/{id}"), route("o/{id:int}"), route("o/fixed"), route("o/{a}/{*rest}")])
    found = {path: router.find("GET", path) for path in ("o/fixed", "o/1", "o/x", "o/x/y", "else/where")}
    assert {
        "o/fixed": ("o/fixed", {}),
        "o/1": ("o/{id:int}", {"id": "1"}),
        "o/x": ("o/{id}", {"id": "x"}),
        "o/x/y": ("o/{a}/{*rest}", {"a": "x", "rest": "y"}),
        "else/where": ("{*all}", {"all": "else/where"}),
    } == found


def test_a_route_that_does_not_answer_the_method_does_not_match() -> None:
    router = Router([route("o", "GET"), route("o/{id}", "PUT")])
    assert router.find("POST", "o") is None
    assert router.find("GET", "o/1") is None


def test_routes_clash_only_where_a_request_fits_both() -> None:
    assert route("o/{id}").clashes_with(route("O/{name}", "GET"))
    assert not route("o/{id}", "GET").clashes_with(route("o/{id}", "POST"))
    assert not route("o/{id:int}").clashes_with(route("o/{id}"))
