"""Tokens are believed only when key, signature, expiry and audience are all right, and the reason is said when not."""

from __future__ import annotations

import pytest
from azure.servicebus._pyamqp.utils import generate_sas_token

from local.broker.auth import (
    AuthError,
    AuthFailure,
    Claims,
    KeyRing,
    Right,
    SharedAccessKey,
    TokenIssuer,
    sign_sas,
)
from local.broker.descriptions import AuthorizationRule

NOW = 1_700_000_000.0
LATER = 1_700_003_600
ROOT = SharedAccessKey(name="Root", primary="cHJpbWFyeQ==", secondary="c2Vjb25kYXJ5")


def failure_of(call: object) -> AuthFailure:
    assert callable(call)
    with pytest.raises(AuthError) as caught:
        call()
    assert caught.value.condition == "amqp:unauthorized-access"
    return caught.value.failure


def ring(*keys: SharedAccessKey) -> KeyRing:
    return KeyRing(keys or (ROOT,), token_secret=b"secret")


def test_a_token_made_by_the_sdk_is_believed() -> None:
    token = generate_sas_token("sb://localhost:5672/orders", "Root", ROOT.primary, LATER)  # type: ignore[no-untyped-call]
    claims = ring().verify(token, "sb://localhost:5672/orders", NOW)
    assert claims == Claims(
        key_name="Root", rights=frozenset(Right), resource="sb://localhost:5672/orders", expires_at=float(LATER)
    )


def test_the_secondary_key_signs_as_well() -> None:
    token = sign_sas("sb://h/q", "Root", ROOT.secondary, LATER)
    assert ring().verify(token, "sb://h/q", NOW).key_name == "Root"


def test_a_key_name_with_special_characters_survives_the_double_quoting_of_the_sdk() -> None:
    key = SharedAccessKey(name="a key/with+all", primary="k")
    token = generate_sas_token("sb://h/q", key.name, key.primary, LATER)  # type: ignore[no-untyped-call]
    assert ring(key).verify(token, "sb://h/q", NOW).key_name == key.name


@pytest.mark.parametrize(
    ("resource", "audience"),
    [
        ("sb://host/", "sb://host/any/entity"),
        ("https://HOST:5672", "https://host:5672/$Resources/queues"),
        ("sb://host/Orders", "amqps://host:5671/orders/$management"),
        ("http://host/orders/", "sb://host/orders/Subscriptions/s/$DeadLetterQueue"),
        ("host/orders", "sb://host/orders"),
        ("sb://[::1]:5672/q", "sb://[::1]:9/q"),
    ],
)
def test_a_token_covers_its_resource_and_everything_below(resource: str, audience: str) -> None:
    token = sign_sas(resource, "Root", ROOT.primary, LATER)
    claims = ring().verify(token, audience, NOW)
    assert claims.covers(audience)


@pytest.mark.parametrize(
    ("resource", "audience"),
    [
        ("sb://host/orders", "sb://host/orders2"),
        ("sb://host/orders/deep", "sb://host/orders"),
        ("sb://host/orders", "sb://other/orders"),
        ("sb://host/orders", "sb://host/"),
    ],
)
def test_a_token_for_another_resource_is_refused(resource: str, audience: str) -> None:
    token = sign_sas(resource, "Root", ROOT.primary, LATER)
    assert failure_of(lambda: ring().verify(token, audience, NOW)) is AuthFailure.WRONG_AUDIENCE


def test_an_expired_token_is_refused_at_the_very_second() -> None:
    token = sign_sas("sb://h/q", "Root", ROOT.primary, int(NOW))
    assert failure_of(lambda: ring().verify(token, "sb://h/q", NOW)) is AuthFailure.EXPIRED
    assert ring().verify(token, "sb://h/q", NOW - 1).expires_at == NOW


def test_a_wrong_key_is_a_bad_signature_and_an_unknown_name_is_said() -> None:
    wrong = sign_sas("sb://h/q", "Root", "not the key", LATER)
    assert failure_of(lambda: ring().verify(wrong, "sb://h/q", NOW)) is AuthFailure.BAD_SIGNATURE
    unknown = sign_sas("sb://h/q", "Nobody", ROOT.primary, LATER)
    assert failure_of(lambda: ring().verify(unknown, "sb://h/q", NOW)) is AuthFailure.UNKNOWN_KEY


def test_a_changed_expiry_breaks_the_signature() -> None:
    token = sign_sas("sb://h/q", "Root", ROOT.primary, LATER).replace(str(LATER), str(LATER + 1))
    assert failure_of(lambda: ring().verify(token, "sb://h/q", NOW)) is AuthFailure.BAD_SIGNATURE


@pytest.mark.parametrize(
    "token",
    [
        "",
        "SharedAccessSignature",
        "SharedAccessSignature ",
        "sharedaccesssignature sr=h&sig=AA==&se=1&skn=Root",
        "SharedAccessSignature sr=h&sig=AA==&se=1",
        "SharedAccessSignature sr=h&sr=h&sig=AA==&se=1&skn=Root",
        "SharedAccessSignature sr=h&sig=AA==&se=-1&skn=Root",
        "SharedAccessSignature sr=h&sig=AA==&se=1e9&skn=Root",
        "SharedAccessSignature sr=h&sig=***&se=1&skn=Root",
        "SharedAccessSignature sr=&sig=AA==&se=1&skn=Root",
        "SharedAccessSignature sr=ftp%3A%2F%2Fh&sig=AA==&se=1&skn=Root",
        "SharedAccessSignature sr=h&sig=AA==&se=1&skn=Root&extra=1",
        "SharedAccessSignature sr=h\u00e9&sig=AA==&se=1&skn=Root",
        "SharedAccessSignature sr=h%2F" + "a%2F" * 100 + "&sig=AA==&se=1&skn=Root",
        "SharedAccessSignature " + "a" * 9000,
    ],
)
def test_a_malformed_token_is_called_malformed(token: str) -> None:
    assert failure_of(lambda: ring().verify(token, "sb://h/q", NOW)) is AuthFailure.MALFORMED


def test_a_revoked_key_is_unknown_and_a_rolled_key_no_longer_signs() -> None:
    keys = ring()
    token = sign_sas("sb://h/q", "Root", ROOT.primary, LATER)
    keys.put(SharedAccessKey(name="Root", primary="new"))
    assert failure_of(lambda: keys.verify(token, "sb://h/q", NOW)) is AuthFailure.BAD_SIGNATURE
    keys.remove("Root")
    assert failure_of(lambda: keys.verify(token, "sb://h/q", NOW)) is AuthFailure.UNKNOWN_KEY


def test_rights_are_those_of_the_key_and_manage_includes_the_others() -> None:
    sender = SharedAccessKey(name="Sender", primary="k", rights=frozenset({Right.SEND}))
    claims = ring(sender).verify(sign_sas("sb://h", "Sender", "k", LATER), "sb://h/q", NOW)
    assert claims.allows(Right.SEND)
    assert not claims.allows(Right.LISTEN)
    assert failure_of(lambda: claims.require(Right.MANAGE)) is AuthFailure.MISSING_RIGHT
    manager = Claims(key_name="m", rights=frozenset({Right.MANAGE}), resource="", expires_at=0.0)
    assert manager.allows(Right.LISTEN)


def test_an_entity_key_is_good_for_its_entity_only() -> None:
    rule = AuthorizationRule(key_name="ListenOnly", primary_key="k", rights=("Listen",))
    keys = KeyRing(entity_rules=lambda path: (rule,) if path == "a/orders" else ())
    claims = keys.verify(sign_sas("sb://h/A/Orders", "ListenOnly", "k", LATER), "sb://h/a/orders/$management", NOW)
    assert claims.rights == frozenset({Right.LISTEN})
    for elsewhere in ("sb://h/a", "sb://h/", "sb://h/a/invoices"):
        token = sign_sas(elsewhere, "ListenOnly", "k", LATER)
        assert failure_of(lambda: keys.verify(token, "sb://h/a/orders", NOW)) is AuthFailure.UNKNOWN_KEY  # noqa: B023


def test_an_entity_key_does_not_hide_a_namespace_key_of_the_same_name() -> None:
    rule = AuthorizationRule(key_name="Root", primary_key="entity", rights=("Listen",))
    keys = KeyRing([ROOT], entity_rules=lambda path: (rule,))
    by_entity = keys.verify(sign_sas("sb://h/q", "Root", "entity", LATER), "sb://h/q", NOW)
    by_namespace = keys.verify(sign_sas("sb://h/q", "Root", ROOT.primary, LATER), "sb://h/q", NOW)
    assert (by_entity.rights, by_namespace.rights) == (frozenset({Right.LISTEN}), frozenset(Right))


def test_a_development_token_gives_all_rights_until_it_expires() -> None:
    token = TokenIssuer(secret=b"secret", lifetime_s=60).issue(NOW)
    claims = ring().verify_bearer(token.text, NOW)
    assert (claims.rights, claims.expires_at) == (frozenset(Right), NOW + 60)
    assert claims.covers("sb://any/thing")
    assert failure_of(lambda: ring().verify_bearer(token.text, NOW + 60)) is AuthFailure.EXPIRED


def test_a_development_token_of_another_broker_or_for_another_service_is_refused() -> None:
    foreign = TokenIssuer(secret=b"other").issue(NOW).text
    assert failure_of(lambda: ring().verify_bearer(foreign, NOW)) is AuthFailure.BAD_SIGNATURE
    storage = TokenIssuer(secret=b"secret").issue(NOW, audience="https://storage.azure.com").text
    assert failure_of(lambda: ring().verify_bearer(storage, NOW)) is AuthFailure.WRONG_AUDIENCE


def test_a_namespace_without_a_token_secret_takes_no_bearer_token() -> None:
    token = TokenIssuer(secret=b"").issue(NOW).text
    assert failure_of(lambda: KeyRing([ROOT]).verify_bearer(token, NOW)) is AuthFailure.UNKNOWN_KEY


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c", "a.b.c.d", "e30.e30.", "W10.W10.AA", "\u00e9.b.c", "x" * 9000]
)
def test_a_malformed_bearer_token_is_called_malformed(token: str) -> None:
    assert failure_of(lambda: ring().verify_bearer(token, NOW)) is AuthFailure.MALFORMED


def test_an_unsigned_token_is_not_taken_for_a_signed_one() -> None:
    # {"alg":"none"}.{...}. : the classic forgery
    token = TokenIssuer(secret=b"secret").issue(NOW).text
    forged = "eyJhbGciOiJub25lIn0." + token.split(".")[1] + "."
    assert failure_of(lambda: ring().verify_bearer(forged, NOW)) is AuthFailure.MALFORMED


def test_any_form_a_client_sends_is_recognised() -> None:
    sas = sign_sas("https://h:1", "Root", ROOT.primary, LATER)
    bearer = TokenIssuer(secret=b"secret").issue(NOW).text
    for text in (sas, f"Bearer {sas}", f"bearer {sas}", bearer, f"Bearer {bearer}"):
        assert ring().verify_any(text, "https://h:1/q", NOW).allows(Right.MANAGE)
    assert failure_of(lambda: ring().verify_any("Bearer ", "https://h", NOW)) is AuthFailure.NO_TOKEN


def test_secrets_are_not_shown_when_a_key_is_printed() -> None:
    rule = AuthorizationRule(key_name="n", primary_key="topsecret", secondary_key="othersecret")
    shown = f"{ROOT!r} {rule!r} {SharedAccessKey.from_rule(rule)!r} {TokenIssuer(secret=b'hush')!r}"
    for secret in (ROOT.primary, ROOT.secondary, "topsecret", "othersecret", "hush"):
        assert secret not in shown
