"""What `python -m local` was asked for, and the two namespaces that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.stack.ports import LOOPBACK, Port

ROOT = Path(__file__).resolve().parents[2]
#: The key in the example settings; the broker listens on this machine only, so it protects nothing.
DEVELOPMENT_KEY = "local-development-only"


@dataclass(frozen=True, kw_only=True)
class StackOptions:
    """What `python -m local` was asked for. Ports: None takes the usual one or a free one, 0 always a free one."""

    settings_file: Path | None = None
    #: App settings that win over those of the file.
    app_settings: Mapping[str, str] = field(default_factory=dict)
    data: Path = ROOT / ".data"
    entities: Path = ROOT / "local" / "entities.json"
    primary: str | None = None
    secondary: str | None = None
    storage: str | None = None
    bind: str = LOOPBACK
    #: Settings without any connection string: tokens of the broker's stand-in for a managed identity are used instead.
    identity: bool = False
    ports: Mapping[str, int | None] = field(default_factory=dict)
    fresh: bool = False
    verbose: bool = False


@dataclass(frozen=True, kw_only=True)
class Side:
    """One namespace: served here on two ports, or somewhere else."""

    name: str
    setting: str
    elsewhere: str | None
    amqp: Port | None = None
    admin: Port | None = None

    def settings(self, *, identity: bool = False) -> dict[str, str]:
        """App settings that lead to it."""
        if self.amqp is not None and identity:
            # The certificate names localhost, and Azure's rule that a namespace is a host name holds here too.
            address = {self.setting: "", f"{self.setting}__fullyQualifiedNamespace": f"localhost:{self.amqp.number}"}
            return {**address, f"{self.name.upper()}_NAMESPACE_NAME": self.name}
        if self.amqp is not None:
            string = (
                f"Endpoint=sb://{LOOPBACK}:{self.amqp.number};SharedAccessKeyName=RootManageSharedAccessKey;"
                f"SharedAccessKey={DEVELOPMENT_KEY};UseDevelopmentEmulator=true;"
            )
            return {self.setting: string, f"{self.name.upper()}_NAMESPACE_NAME": self.name}
        assert self.elsewhere is not None
        # The name of a namespace in Azure is part of its address; an emulator elsewhere needs it set.
        named = {} if "UseDevelopmentEmulator" in self.elsewhere else {f"{self.name.upper()}_NAMESPACE_NAME": ""}
        if "=" in self.elsewhere:
            return {self.setting: self.elsewhere, **named}
        return {self.setting: "", f"{self.setting}__fullyQualifiedNamespace": self.elsewhere, **named}
