"""Whatever text is shown as a token, the answer is claims or a proper refusal."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from local.broker.auth import AuthError, KeyRing, SharedAccessKey, TokenIssuer, sign_sas

NOW = 1_700_000_000.0
RING = KeyRing([SharedAccessKey(name="k", primary="secret")], token_secret=b"s")
fragments = st.sampled_from(
    [
        "SharedAccessSignature ",
        "Bearer ",
        "sr=",
        "&",
        "=",
        "sig=",
        "se=",
        "skn=k",
        "%",
        "%2F",
        "sb://h/q",
        "1",
        ".",
        "e30",
    ]
)
token_like = st.lists(st.one_of(fragments, st.text(max_size=8)), max_size=14).map("".join)


@given(token=token_like, audience=st.one_of(st.just("sb://h/q"), st.text(max_size=30)))
def test_any_text_is_refused_properly(token: str, audience: str) -> None:
    with contextlib.suppress(AuthError):
        claims = RING.verify_any(token, audience, NOW)
        raise AssertionError(f"believed {token!r}: {claims}")


@given(path=st.text(max_size=60), seconds=st.integers(1, 10**9))
def test_every_signed_resource_is_believed_for_itself(path: str, seconds: int) -> None:
    resource = f"sb://host/{path.encode(errors='replace').decode()}"
    if resource.count("/") > 50:
        return
    token = sign_sas(resource, "k", "secret", int(NOW) + seconds)
    assert RING.verify(token, resource, NOW).expires_at == NOW + seconds


@given(position=st.integers(0, 10**6), replacement=st.characters(codec="ascii"))
def test_one_changed_character_never_widens_a_bearer_token(position: int, replacement: str) -> None:
    token = TokenIssuer(secret=b"s").issue(NOW).text
    index = position % len(token)
    changed = token[:index] + replacement + token[index + 1 :]
    with contextlib.suppress(AuthError):
        # Unused bits of the last base64 character may differ without changing what was signed.
        assert RING.verify_bearer(changed, NOW) == RING.verify_bearer(token, NOW)
