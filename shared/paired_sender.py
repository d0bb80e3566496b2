"""The sender for programs that are not behind HTTP.

    async with PairedSender(settings) as bus:
        sent = await bus.send("orders", ServiceBusMessage("four apples"))

A message goes to its queue or topic in the primary namespace, or, while that is unavailable, waits in a backlog queue
of the secondary; `sent.via` says which. Any number of tasks may send at once: what gathers for one entity travels in
batches. Errors are those of `shared.errors`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType

from shared.composition import Runtime, build
from shared.domain.pair import EntityPath, entity_path
from shared.errors import Rejected
from shared.ports import Telemetry
from shared.services.journeys import Sent
from shared.settings import Settings

#: Spellings of entity paths that are remembered as valid.
_PATHS_MAX = 1000


class PairedSender:
    def __init__(
        self,
        settings: Settings | Mapping[str, str] | None = None,
        *,
        telemetry: Telemetry | None = None,
        authority_file: str | None = None,
        create_queues: bool = True,
    ) -> None:
        """Settings, a mapping of app settings, or None for those of the environment.

        `authority_file` is a certificate to trust for administration, as that of the embedded broker; `create_queues`
        makes missing backlog queues in the background, which needs the right to manage the secondary.
        """
        self._settings = settings if isinstance(settings, Settings) else Settings.from_env(settings or os.environ)
        self._telemetry = telemetry
        self._authority_file = authority_file
        self._create_queues = create_queues
        self._runtime: Runtime | None = None
        self._paths: dict[str, EntityPath] = {}

    async def __aenter__(self) -> PairedSender:
        self._runtime = build(self._settings, telemetry=self._telemetry, authority_file=self._authority_file)
        await self._runtime.state.in_use()
        if self._create_queues:
            self._runtime.pairing.start_if_needed()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.close()

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            raise RuntimeError("use it as `async with PairedSender(...) as bus`")
        return self._runtime

    async def send(self, path: str, message: object) -> Sent:
        """One message: a ServiceBusMessage or AmqpAnnotatedMessage of the SDK, text, or bytes."""
        runtime = self._runtime or self.runtime
        return await runtime.sender.send(self._paths.get(path) or self._path(path), (runtime.to_outgoing(message),))

    async def send_batch(self, path: str, messages: Sequence[object]) -> Sent:
        """Several messages as one: all are accepted, or none."""
        runtime = self.runtime
        if not messages:
            raise Rejected("A batch has at least one message.")
        return await runtime.sender.send(self._path(path), tuple(map(runtime.to_outgoing, messages)))

    async def pair(self) -> None:
        """Creates missing backlog queues and waits for it; PairingFailed when not one is there afterwards."""
        await self.runtime.pairing.pair()

    def _path(self, text: str) -> EntityPath:
        path = self._paths.get(text)
        if path is None:
            path = entity_path(text)
            if len(self._paths) < _PATHS_MAX:
                self._paths[text] = path
        return path
