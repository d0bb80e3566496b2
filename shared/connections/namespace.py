"""The connection to one Service Bus namespace, and the name of that namespace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from shared.connections.reader import ConnectionReader, Secret, is_host, is_ip_address, join_parts
from shared.domain.pair import NAMESPACE_NAME_LENGTH_MAX, Side, is_namespace_name
from shared.errors import ConfigurationError, SettingProblem

CONNECTION_STRING_EXAMPLE = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=<name>;SharedAccessKey=<key>"
EXAMPLE_NAMES = {Side.PRIMARY: "contoso", Side.SECONDARY: "fabrikam"}
NAMESPACE_SETTINGS = {Side.PRIMARY: "ServiceBusPrimary", Side.SECONDARY: "ServiceBusSecondary"}
NAME_SETTINGS = {Side.PRIMARY: "PRIMARY_NAMESPACE_NAME", Side.SECONDARY: "SECONDARY_NAMESPACE_NAME"}
IDENTITY_PARTS = ("fullyQualifiedNamespace", "clientId", "credential")
PORT_MAX = 65_535
_PARTS = (
    "Endpoint",
    "SharedAccessKeyName",
    "SharedAccessKey",
    "SharedAccessSignature",
    "UseDevelopmentEmulator",
    "EntityPath",
)


@dataclass(frozen=True, kw_only=True)
class NamespaceConnection:
    """How to reach one namespace: with a connection string, or, when that is None, with the app's identity."""

    setting: str
    name: str
    host: str
    port: int | None = None
    emulator: bool = False
    connection_string: Secret | None = None
    client_id: str | None = None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def read_namespace(env: Mapping[str, str], side: Side) -> NamespaceConnection:
    setting = NAMESPACE_SETTINGS[side]
    reader = ConnectionReader(env, setting, example=CONNECTION_STRING_EXAMPLE.format(EXAMPLE_NAMES[side]))
    if reader.text and "fullyQualifiedNamespace" in reader.identity:
        reader.wrong("a connection string and __fullyQualifiedNamespace are both set; keep one of them")
    elif reader.text:
        return _from_string(reader, env, side)
    elif reader.identity:
        return _from_identity(reader, env, side)
    else:
        reader.wrong(f"not set; give a connection string, or {setting}__fullyQualifiedNamespace to connect by identity")
    raise ConfigurationError(reader.problems)


def _from_string(reader: ConnectionReader, env: Mapping[str, str], side: Side) -> NamespaceConnection:
    parts = reader.split_parts(_PARTS)
    if "EntityPath" in parts:
        reader.wrong("EntityPath ties it to one entity, but the app uses the whole namespace; remove that part")
    if parts.get("UseDevelopmentEmulator", "false") not in ("true", "false"):
        reader.wrong("UseDevelopmentEmulator is true or false, in lower case")
    _check_shared_access(reader, parts)
    host, port = _split_endpoint(reader, parts)
    name = _read_name(reader, env, side, host)
    reader.stop_if_wrong()
    return NamespaceConnection(
        setting=reader.setting,
        name=name,
        host=host,
        port=port,
        emulator=parts.get("UseDevelopmentEmulator") == "true",
        connection_string=join_parts(parts),
    )


def _from_identity(reader: ConnectionReader, env: Mapping[str, str], side: Side) -> NamespaceConnection:
    example = f"{reader.setting}__fullyQualifiedNamespace={EXAMPLE_NAMES[side]}.servicebus.windows.net"
    client_id = reader.check_identity(IDENTITY_PARTS, example=example)
    given = reader.identity.get("fullyQualifiedNamespace", "").lower()
    host, port = _split_host(given)
    if not host:
        reader.wrong_identity("fullyQualifiedNamespace", "not a host name" if given else "not set", example=example)
    name = _read_name(reader, env, side, host)
    reader.stop_if_wrong()
    return NamespaceConnection(setting=reader.setting, name=name, host=host, port=port, client_id=client_id)


def _split_host(given: str) -> tuple[str, int | None]:
    """A namespace in Azure has a host name with dots and no port; a broker of one's own may have one, on localhost."""
    host, colon, digits = given.partition(":")
    good_port = not colon or (re.fullmatch("[0-9]{1,5}", digits) is not None and 0 < int(digits) <= PORT_MAX)
    good_host = (host == "localhost" or "." in host) and is_host(host) and not is_ip_address(host)
    return (host, int(digits) if colon else None) if good_host and good_port else ("", None)


def _check_shared_access(reader: ConnectionReader, parts: Mapping[str, str]) -> None:
    signature = parts.get("SharedAccessSignature")
    if signature is None:
        for name in ("SharedAccessKeyName", "SharedAccessKey"):
            if name not in parts:
                reader.wrong(f"the connection string has no {name}")
    elif "SharedAccessKey" in parts or "SharedAccessKeyName" in parts:
        reader.wrong("a SharedAccessSignature and a SharedAccessKey are both there; keep one of them")
    elif signature and not (signature.startswith("SharedAccessSignature ") and "sig=" in signature):
        reader.wrong("its SharedAccessSignature does not begin with `SharedAccessSignature sr=` or has no sig")


def _split_endpoint(reader: ConnectionReader, parts: Mapping[str, str]) -> tuple[str, int | None]:
    endpoint = parts.get("Endpoint")
    if not endpoint:
        if endpoint is None:
            reader.wrong("the connection string has no Endpoint")
        return "", None
    try:
        url = urlsplit(endpoint)
        host, port = url.hostname or "", url.port
    except ValueError:  # a port that is no number, brackets that do not close
        host, port = "", None
    else:
        is_plain = url.scheme == "sb" and not (url.username or url.query or url.fragment) and url.path in ("", "/")
        host = host if is_plain and is_host(host) and port != 0 else ""
    if not host:
        reader.wrong("its Endpoint is not of the form sb://host/ or sb://host:port/")
    return host, port


def _read_name(reader: ConnectionReader, env: Mapping[str, str], side: Side, host: str) -> str:
    """The name set for this side; else the host's first label; else, for a host without labels, the side itself."""
    setting = NAME_SETTINGS[side]
    given = env.get(setting, "").strip().lower()
    has_labels = "." in host and not is_ip_address(host)
    name = given or (host.partition(".")[0].lower() if has_labels else side.value)
    if not is_namespace_name(name):
        where = "" if given else f"the first label of the host of {reader.setting} is no namespace name: "
        problem = f"{where}a name has at most {NAMESPACE_NAME_LENGTH_MAX} letters, digits and hyphens, no hyphen first"
        reader.problems.append(SettingProblem(setting=setting, problem=problem, example=f"{setting}=contoso"))
    return name
