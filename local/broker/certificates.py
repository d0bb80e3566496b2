"""A certificate authority of this machine's own, so that clients which insist on TLS can talk to the broker.

Made at first start in a folder and kept; the server's certificate is renewed before it ends or when it lacks a name.
Nothing leaves the folder; a client trusts the authority only if it is told to (`authority_file`).
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = timedelta(days=3650)
#: Some clients refuse certificates of servers that are valid for longer.
SERVER_LIFETIME = timedelta(days=397)
RENEW_BEFORE = timedelta(days=30)
#: Clocks differ a little between machines and containers.
CLOCK_SKEW = timedelta(hours=1)

ALWAYS_NAMED = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class _Signed:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    def pem(self) -> bytes:
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return key + self.certificate_pem()

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class CertificateAuthority:
    """Keeps `authority.pem` (to be trusted), `authority-key.pem` and `server.pem` (both secret) in one folder."""

    def __init__(
        self, folder: Path, *, names: Iterable[str] = (), now: Callable[[], datetime] = _utc_now
    ) -> None:
        self._folder = folder
        self._names = tuple(dict.fromkeys((*ALWAYS_NAMED, *names)))
        self._now = now

    @property
    def authority_file(self) -> Path:
        """The certificate that clients must trust; made if need be."""
        self._authority()
        return self._folder / "authority.pem"

    def server_context(self) -> ssl.SSLContext:
        """TLS for the server, with a certificate that is good for `localhost` and the other names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # OpenSSL opens the file twice, for the certificate and for its key: nobody may replace it in between.
        with _only_one_in(self._folder):
            context.load_cert_chain(self._server_file())
        return context

    def server_file(self) -> Path:
        """Certificate and key in one file, for other servers of this machine that clients of the broker use."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _only_one_in(self._folder):
            return self._server_file()

    def _authority(self) -> _Signed:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._folder / "authority-key.pem"
        authority = _load(file)
        if authority is None or self._is_near_its_end(authority):
            made = _make_authority(self._now())
            _write(file, made.pem(), 0o600, replace=file.exists())
            # Another process may have been quicker; then its authority is the one that counts.
            authority = _load(file) or made
        public = self._folder / "authority.pem"
        if not public.exists() or public.read_bytes() != authority.certificate_pem():
            _write(public, authority.certificate_pem(), 0o644, replace=True)
        return authority

    def _server_file(self) -> Path:
        authority = self._authority()
        file = self._folder / "server.pem"
        server = _load(file)
        if server is None or not self._still_serves(server, authority):
            _write(file, _make_server(authority, self._names, self._now()).pem(), 0o600, replace=True)
        return file

    def _is_near_its_end(self, signed: _Signed) -> bool:
        return signed.certificate.not_valid_after_utc - self._now() < RENEW_BEFORE

    def _still_serves(self, server: _Signed, authority: _Signed) -> bool:
        try:
            server.certificate.verify_directly_issued_by(authority.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        held = server.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return set(_general_names(self._names)) <= set(held) and not self._is_near_its_end(server)


@contextlib.contextmanager
def _only_one_in(folder: Path) -> Iterator[None]:
    """One holder among all threads and processes; the lock goes with the handle, also after a kill."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _load(file: Path) -> _Signed | None:
    """None when there is none, or when what is there cannot be used."""
    try:
        data = file.read_bytes()
        key = serialization.load_pem_private_key(data, password=None)
        certificate = x509.load_pem_x509_certificate(data)
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        return None
    return _Signed(certificate=certificate, key=key)


def _write(file: Path, data: bytes, mode: int, *, replace: bool) -> None:
    """All or nothing, and never readable by others in between. Without `replace` the first writer wins."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).chmod(mode)
        if replace:
            os.replace(temporary, file)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(temporary, file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _make_authority(now: datetime) -> _Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Embedded broker, local development authority")])
    builder = (
        _builder(name, name, key, now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _Signed(certificate=builder.sign(key, hashes.SHA256()), key=key)


def _make_server(authority: _Signed, names: Iterable[str], now: datetime) -> _Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(name, authority.certificate.subject, key, now, SERVER_LIFETIME)
        .add_extension(x509.SubjectAlternativeName(_general_names(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    return _Signed(certificate=builder.sign(authority.key, hashes.SHA256()), key=key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_names(names: Iterable[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found
