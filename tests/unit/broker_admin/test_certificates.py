"""The local certificate authority: made once, kept, secret where it must be, renewed in time."""

from __future__ import annotations

import contextlib
import os
import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from local.broker.certificates import CertificateAuthority

NOW = datetime.now(UTC)


def certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def shake_hands(authority: CertificateAuthority, trusted: Path, name: str) -> None:
    """A TLS handshake in memory; SSLCertVerificationError when the client does not believe the server."""
    client_in, client_out, server_in, server_out = (ssl.MemoryBIO() for _ in range(4))
    client_context = ssl.create_default_context(cafile=str(trusted))
    client = client_context.wrap_bio(client_in, client_out, server_hostname=name)
    server = authority.server_context().wrap_bio(server_in, server_out, server_side=True)
    for _ in range(10):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            server_in.write(client_out.read())
            client_in.write(server_out.read())
    assert client.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "broker.test", "10.0.0.7"])
def test_a_client_that_trusts_the_authority_believes_the_server(tmp_path: Path, name: str) -> None:
    authority = CertificateAuthority(tmp_path, names=["broker.test", "10.0.0.7"])
    shake_hands(authority, authority.authority_file, name)


def test_another_name_or_another_authority_is_not_believed(tmp_path: Path) -> None:
    authority, other = CertificateAuthority(tmp_path / "a"), CertificateAuthority(tmp_path / "b")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(authority, authority.authority_file, "example.com")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(authority, other.authority_file, "localhost")


def test_everything_is_kept_for_the_next_start(tmp_path: Path) -> None:
    CertificateAuthority(tmp_path).server_context()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    again = CertificateAuthority(tmp_path)
    again.server_context()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert sorted(before) == ["authority-key.pem", "authority.pem", "server.pem"]


def test_keys_are_for_the_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    authority = CertificateAuthority(folder)
    authority.server_context()
    modes = {name: stat.S_IMODE(os.stat(folder / name).st_mode) for name in os.listdir(folder)}
    assert modes == {"authority-key.pem": 0o600, "authority.pem": 0o644, "server.pem": 0o600}
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert b"PRIVATE" not in authority.authority_file.read_bytes()


def test_the_server_certificate_is_renewed_in_time_and_the_authority_stays(tmp_path: Path) -> None:
    CertificateAuthority(tmp_path, now=lambda: NOW).server_context()
    first, trusted = certificate(tmp_path / "server.pem"), (tmp_path / "authority.pem").read_bytes()
    CertificateAuthority(tmp_path, now=lambda: NOW + timedelta(days=366)).server_context()
    assert certificate(tmp_path / "server.pem") == first
    later = NOW + timedelta(days=368)
    CertificateAuthority(tmp_path, now=lambda: later).server_context()
    renewed = certificate(tmp_path / "server.pem")
    assert renewed != first
    assert renewed.not_valid_after_utc > later + timedelta(days=300)
    assert (tmp_path / "authority.pem").read_bytes() == trusted


def test_the_authority_is_renewed_too_and_signs_a_new_server_certificate(tmp_path: Path) -> None:
    CertificateAuthority(tmp_path, now=lambda: NOW).server_context()
    later = NOW + timedelta(days=3640)
    authority = CertificateAuthority(tmp_path, now=lambda: later)
    authority.server_context()
    trusted = certificate(authority.authority_file)
    assert trusted.not_valid_after_utc > later + timedelta(days=3000)
    certificate(tmp_path / "server.pem").verify_directly_issued_by(trusted)


def test_a_new_name_makes_a_new_server_certificate(tmp_path: Path) -> None:
    CertificateAuthority(tmp_path).server_context()
    named = CertificateAuthority(tmp_path, names=["broker.test"])
    shake_hands(named, named.authority_file, "broker.test")


@pytest.mark.parametrize("file", ["authority-key.pem", "server.pem", "authority.pem"])
@pytest.mark.parametrize("damage", [b"", b"not a certificate"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, file: str, damage: bytes) -> None:
    CertificateAuthority(tmp_path).server_context()
    (tmp_path / file).write_bytes(damage)
    authority = CertificateAuthority(tmp_path)
    shake_hands(authority, authority.authority_file, "localhost")


def test_processes_that_start_at_once_agree_on_one_authority(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        contexts = list(pool.map(lambda _: CertificateAuthority(tmp_path).server_context(), range(8)))
    assert len(contexts) == 8
    authority = certificate(tmp_path / "authority.pem")
    assert certificate(tmp_path / "authority-key.pem") == authority
    certificate(tmp_path / "server.pem").verify_directly_issued_by(authority)
