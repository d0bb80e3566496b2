"""The whole broker, embeddable: any number of namespaces on ports of their own, in one event loop.

    async with Broker([NamespaceSpec(name="primary")]) as broker:
        client = ServiceBusClient.from_connection_string(broker["primary"].connection_string)
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from . import emulator_config
from .admin import API_VERSIONS, AdminApi, ManagedIdentityEndpoint
from .admin.identity import IDENTITY_PATH
from .auth import KeyRing, SharedAccessKey, TokenIssuer
from .certificates import CertificateAuthority
from .clock import Clock, SystemClock
from .control import FAULTS_PATH, ControlApi, health
from .descriptions import AuthorizationRule
from .errors import BrokerError
from .faults import FaultPlan, FaultSpec
from .http import Router
from .journal import Journal, MemoryJournal
from .namespace import Namespace
from .restore import restore
from .server import Listener
from .sqlite_journal import SqliteJournal

LOOPBACK = "127.0.0.1"
KEY_NAME = "RootManageSharedAccessKey"
TIERS = ("Basic", "Standard", "Premium")


@dataclass(frozen=True, kw_only=True)
class NamespaceSpec:
    """A namespace to serve. Port 0 takes a free one."""

    name: str
    amqp_port: int = 0
    admin_port: int = 0
    tier: str = "Standard"


class ServedNamespace:
    """A namespace that is being served, and how to reach it."""

    def __init__(self, core: Namespace, amqp: Listener, admin: Listener, *, host: str, key: str) -> None:
        self.core = core
        self._amqp, self._admin, self._host, self._key = amqp, admin, host, key

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def amqp_port(self) -> int:
        return self._amqp.port

    @property
    def admin_port(self) -> int:
        return self._admin.port

    @property
    def connection_string(self) -> str:
        """For messages, and for administration over HTTPS on the same port."""
        return self._connection_string(self.amqp_port)

    @property
    def admin_connection_string(self) -> str:
        """For clients that administer over plain HTTP, as with Microsoft's emulator."""
        return self._connection_string(self.admin_port)

    @property
    def control_url(self) -> str:
        return f"http://{self._host}:{self.admin_port}"

    def _connection_string(self, port: int) -> str:
        return (
            f"Endpoint=sb://{self._host}:{port};SharedAccessKeyName={KEY_NAME};SharedAccessKey={self._key};"
            "UseDevelopmentEmulator=true;"
        )

    async def faults_settled(self) -> None:
        await self._amqp.settled()


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    host: str = LOOPBACK
    #: The key of every namespace; made up when not given.
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    #: Where messages are kept; None = in memory only.
    data: Path | None = None
    #: Where the local certificate authority lives; None = a folder that goes with the process.
    certificates: Path | None = None
    entities: Path | None = None


class Broker:
    def __init__(
        self,
        namespaces: Sequence[NamespaceSpec] = (NamespaceSpec(name="local"),),
        options: BrokerOptions | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.options = options or BrokerOptions()
        self.clock = clock or SystemClock()
        self.faults = FaultPlan()
        self.namespaces: dict[str, ServedNamespace] = {}
        self._specs = tuple(namespaces)
        self._stack = AsyncExitStack()
        self._tls: ssl.SSLContext | None = None
        self._certificates: Path | None = self.options.certificates
        self._token_secret = secrets.token_bytes(32)
        self.identity_header = secrets.token_urlsafe(16)

    def __getitem__(self, name: str) -> ServedNamespace:
        return self.namespaces[name]

    async def __aenter__(self) -> Broker:
        try:
            for spec in self._specs:
                await self._serve(spec)
            if self.options.entities is not None:
                emulator_config.load(self.options.entities, {n: s.core for n, s in self.namespaces.items()})
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        self.namespaces.clear()

    @property
    def identity_endpoint(self) -> str:
        """A stand-in for the managed identity endpoint of Azure, for identity-based connections."""
        first = next(iter(self.namespaces.values()))
        return f"{first.control_url}{IDENTITY_PATH}"

    @property
    def authority_file(self) -> Path:
        """The certificate to trust for administration over HTTPS."""
        return self._authority().authority_file

    async def inject(self, **fault: object) -> int:
        """Set a fault and wait until it holds; its number."""
        rule = self.faults.add(FaultSpec.from_json(fault))
        await self._faults_settled()
        return rule.id

    async def heal(self, fault_id: int | None = None) -> None:
        """Clear one fault, or all, and wait until that holds."""
        self.faults.clear(fault_id)
        await self._faults_settled()

    async def _faults_settled(self) -> None:
        for served in self.namespaces.values():
            await served.faults_settled()

    # -- wiring

    async def _serve(self, spec: NamespaceSpec) -> None:
        journal = self._journal(spec.name)
        keys = KeyRing(
            [SharedAccessKey(name=KEY_NAME, primary=self.options.key)],
            token_secret=self._token_secret,
            entity_rules=lambda path: _entity_rules(namespace, path),
        )
        namespace = Namespace(
            spec.name, clock=self.clock, journal=MemoryJournal(), keys=keys, tier=spec.tier, faults=self.faults
        )
        if isinstance(journal, SqliteJournal):
            restore(namespace, journal)
            journal.start()
            self._stack.push_async_callback(journal.close)
        namespace.journal = journal
        router = self._router(namespace)
        amqp = await self._listen(namespace, router, spec.amqp_port, takes_faults=True)
        admin = await self._listen(namespace, router, spec.admin_port, takes_faults=False)
        self.namespaces[spec.name] = ServedNamespace(
            namespace, amqp, admin, host=self.options.host, key=self.options.key
        )

    def _journal(self, name: str) -> Journal:
        if self.options.data is None:
            return MemoryJournal()
        return SqliteJournal(self.options.data / f"{name}.sqlite")

    async def _listen(self, namespace: Namespace, router: Router, port: int, *, takes_faults: bool) -> Listener:
        listener = Listener(
            namespace, router, faults=self.faults, clock=self.clock, tls=self._tls_context, takes_faults=takes_faults
        )
        await listener.open(self.options.host, port)
        self._stack.push_async_callback(listener.close)
        return listener

    def _router(self, namespace: Namespace) -> Router:
        identity = ManagedIdentityEndpoint(TokenIssuer(secret=self._token_secret), self.identity_header, self.clock)
        router = Router(AdminApi(namespace).handle, default_versions=API_VERSIONS)
        router.mount(FAULTS_PATH, ControlApi(self.faults).handle)
        router.mount(IDENTITY_PATH, identity.handle)
        router.mount("/health", health)
        return router

    def _tls_context(self) -> ssl.SSLContext:
        """Made when the first TLS client comes: most never do, and start-up stays quick."""
        if self._tls is None:
            self._tls = self._authority().server_context()
        return self._tls

    def _authority(self) -> CertificateAuthority:
        if self._certificates is None:
            folder = tempfile.TemporaryDirectory(prefix="broker-certificates-")
            self._stack.callback(folder.cleanup)
            self._certificates = Path(folder.name)
        return CertificateAuthority(self._certificates)


def _entity_rules(namespace: Namespace, path: str) -> Sequence[AuthorizationRule]:
    try:
        return namespace.sendable(path).description.authorization_rules
    except BrokerError:
        return ()
