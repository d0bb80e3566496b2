"""The durable HTTP API: what DurableOrchestrationClient calls, and the same for people with the system key."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from local.host.durable.client import WEBHOOK_PATH
from local.host.durable.events import EventType, parse_iso
from local.host.durable.model import Instance, Message, MessageKind, Status, check_instance_id, new_instance
from local.host.durable.packing import TooLarge
from local.host.durable.store import InstanceExists
from local.host.durable.worker import DurableWorker
from local.host.http_messages import Request, Response

LIST_LIMIT = 1000
WAIT_TIMEOUT_S = 10.0
WAIT_POLL_S = 0.1


class DurableApi:
    """Answers requests below the API's base path."""

    def __init__(self, worker: DurableWorker) -> None:
        self._worker = worker
        self._store = worker.store

    async def handle(self, request: Request, path: str) -> Response:
        """Route one request; `path` is relative to the base and still percent-encoded."""
        parts = [unquote(part) for part in path.split("?")[0].strip("/").split("/") if part]
        match (request.method, parts):
            case ("POST", ["orchestrators", name]):
                return await self._start(request, name, uuid.uuid4().hex)
            case ("POST", ["orchestrators", name, instance_id]):
                return await self._start(request, name, instance_id)
            case ("GET", ["instances"]):
                return await self._list(request)
            case ("DELETE", ["instances"]):
                return await self._purge_many(request)
            case ("GET", ["instances", instance_id]):
                return await self._status(request, instance_id)
            case ("DELETE", ["instances", instance_id]):
                return await self._purge(instance_id)
            case ("POST", ["instances", instance_id, "raiseEvent", name]):
                return await self._raise(request, instance_id, name)
            case ("POST", ["instances", instance_id, "terminate" | "suspend" | "resume" as verb]):
                return await self._control(request, instance_id, MessageKind(verb))
            case ("POST", ["instances", instance_id, "restart"]):
                return await self._restart(request, instance_id)
            case ("POST", ["instances", _, "rewind"]):
                return reply(501, "rewind is not supported by the local host")
            case (_, ["entities", *_]):
                return reply(501, "durable entities are not supported by the local host")
        return Response(status=404)

    async def _start(self, request: Request, name: str, instance_id: str) -> Response:
        wrong = check_instance_id(instance_id)
        if name not in self._worker.orchestrators:
            known = ", ".join(repr(known) for known in sorted(self._worker.orchestrators)) or "none"
            wrong = (
                f"The function '{name}' doesn't exist, is disabled, or is not an orchestrator function. "
                f"Additional info: the following are the known orchestrator functions: {known}."
            )
        if wrong is not None:
            return failure(400, "One or more of the arguments submitted is incorrect", wrong)
        try:
            text = start_input(request.body)
        except ValueError:
            return failure(400, "The request is not valid", "The request content is not valid JSON.")
        instance = new_instance(name=name, instance_id=instance_id, text=text, version=request.query.get("version"))
        try:
            replace = self._worker.options.overridable_states == "AnyState"
            await self._store.create(instance, replace_running=replace)
        except InstanceExists:
            reason = f"An Orchestration instance with the ID {instance_id} already exists."
            return failure(500, "Something went wrong while processing your request", reason)
        except TooLarge as error:
            return failure(400, "The request is not valid", str(error))
        await self._worker.notify(instance_id)
        if "timeout" in request.query:
            return await self._wait(request, instance_id)
        return self._check_status(request, instance_id)

    def _check_status(self, request: Request, instance_id: str) -> Response:
        links = self._links(request, instance_id)
        headers = (("location", links["statusQueryGetUri"]), ("retry-after", "10"))
        return reply(202, links, headers)

    def _links(self, request: Request, instance_id: str) -> dict[str, str]:
        origin = "/".join(request.url.split("/")[:3])
        key = request.key
        query = f"taskHub={self._worker.options.hub_name}&connection=Storage" + (f"&code={key}" if key else "")
        base = f"{origin}/{WEBHOOK_PATH}/instances/{instance_id}"
        return {
            "id": instance_id,
            "statusQueryGetUri": f"{base}?{query}",
            "sendEventPostUri": f"{base}/raiseEvent/{{eventName}}?{query}",
            "terminatePostUri": f"{base}/terminate?reason={{text}}&{query}",
            "purgeHistoryDeleteUri": f"{base}?{query}",
            "restartPostUri": f"{base}/restart?{query}",
            "suspendPostUri": f"{base}/suspend?reason={{text}}&{query}",
            "resumePostUri": f"{base}/resume?reason={{text}}&{query}",
        }

    async def _wait(self, request: Request, instance_id: str) -> Response:
        """Create-and-wait: the output if it comes in time, else the usual 202."""
        try:
            timeout = min(float(request.query["timeout"]), WAIT_TIMEOUT_S)
        except ValueError:
            return failure(400, "The request is not valid", "timeout must be a number of seconds")
        until = asyncio.get_running_loop().time() + timeout
        while asyncio.get_running_loop().time() < until:
            instance = await self._store.get(instance_id)
            if instance is not None and instance.status.finished:
                return reply(200, _value(instance.output))
            await asyncio.sleep(WAIT_POLL_S)
        return self._check_status(request, instance_id)

    async def _status(self, request: Request, instance_id: str) -> Response:
        show_history = flag(request.query, "showHistory")
        loaded = await self._store.load(instance_id)
        if loaded is None:
            return Response(status=404)
        body = status_body(loaded.instance, show_input=flag(request.query, "showInput", default=True))
        if show_history:
            outputs = flag(request.query, "showHistoryOutput")
            body["historyEvents"] = [_shown_event(item, outputs) for item in loaded.history if _is_shown(item)]
        if loaded.instance.status.finished:
            failed = loaded.instance.status == Status.FAILED
            code = 500 if failed and flag(request.query, "returnInternalServerErrorOnFailure") else 200
            return reply(code, body)
        return reply(202, body, (("location", request.url), ("retry-after", "5")))

    async def _list(self, request: Request) -> Response:
        try:
            instances = await self._matching(request.query)
            top = int(request.query.get("top", LIST_LIMIT))
        except ValueError as error:
            return failure(400, "The request is not valid", str(error))
        show_input = flag(request.query, "showInput", default=True)
        instances.sort(key=lambda instance: instance.created)
        return reply(200, [status_body(item, show_input=show_input) for item in instances[: max(top, 0)]])

    async def _matching(self, query: Mapping[str, str]) -> list[Instance]:
        names = [name for name in query.get("runtimeStatus", "").split(",") if name]
        statuses = [Status(name) for name in names if name in set(Status)]
        if names and not statuses:
            return []
        after = parse_iso(query["createdTimeFrom"]) if "createdTimeFrom" in query else None
        before = parse_iso(query["createdTimeTo"]) if "createdTimeTo" in query else None
        prefix = query.get("instanceIdPrefix", "")
        return [
            instance
            for instance in await self._store.find(statuses)
            if instance.instance_id.startswith(prefix)
            and (after is None or instance.created >= after)
            and (before is None or instance.created <= before)
        ]

    async def _raise(self, request: Request, instance_id: str, name: str) -> Response:
        if request.body and "json" not in request.headers.get("content-type", ""):
            return failure(400, "Only application/json request content is supported", "")
        text = request.body.decode("utf-8", "replace") if request.body else "null"
        try:
            json.loads(text)
        except ValueError:
            return failure(400, "The request content is not valid JSON", "")
        return await self._send(instance_id, Message(kind=MessageKind.EVENT, enqueued=_now(), name=name, input=text))

    async def _control(self, request: Request, instance_id: str, kind: MessageKind) -> Response:
        reason = request.query.get("reason", "")
        return await self._send(instance_id, Message(kind=kind, enqueued=_now(), input=reason))

    async def _send(self, instance_id: str, message: Message) -> Response:
        """Store a message for a running instance; only then is it acknowledged."""
        instance = await self._store.get(instance_id)
        if instance is None:
            return Response(status=404)
        if instance.status.finished:
            return Response(status=410)
        try:
            await self._store.post(instance_id, message)
        except TooLarge as error:
            return failure(413, "The request is too large", str(error))
        await self._worker.notify(instance_id)
        return Response(status=202)

    async def _restart(self, request: Request, instance_id: str) -> Response:
        instance = await self._store.get(instance_id)
        if instance is None:
            return Response(status=404)
        fresh_id = uuid.uuid4().hex if flag(request.query, "restartWithNewInstanceId", default=True) else instance_id
        fresh = new_instance(
            name=instance.name, instance_id=fresh_id, text=instance.input, version=instance.version
        )
        try:
            await self._store.create(fresh)
        except InstanceExists:
            return failure(500, "Something went wrong", f"The instance {instance_id} has not finished.")
        await self._worker.notify(fresh_id)
        # The Python client takes the whole body for the new id.
        return reply(202, fresh_id)

    async def _purge(self, instance_id: str) -> Response:
        if not await self._store.delete(instance_id):
            return Response(status=404)
        return reply(200, {"instancesDeleted": 1})

    async def _purge_many(self, request: Request) -> Response:
        try:
            instances = [item for item in await self._matching(request.query) if item.status.finished]
        except ValueError as error:
            return failure(400, "The request is not valid", str(error))
        for instance in instances:
            await self._store.delete(instance.instance_id)
        return reply(200, {"instancesDeleted": len(instances)}) if instances else Response(status=404)


def start_input(body: bytes) -> str | None:
    """The orchestrator's input as JSON text.

    The Python client sends a JSON string that itself holds JSON; the extension's parse undoes one layer of it.
    """
    if not body:
        return None
    text = body.decode("utf-8")
    value = json.loads(text)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return text
        return value
    return text


def status_body(instance: Instance, *, show_input: bool) -> dict[str, Any]:
    """An instance as the status API shows it."""
    return {
        "name": instance.name,
        "instanceId": instance.instance_id,
        "runtimeStatus": str(instance.status),
        "input": _value(instance.input) if show_input else None,
        "customStatus": _value(instance.custom_status),
        "output": _value(instance.output),
        "createdTime": instance.created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lastUpdatedTime": instance.updated.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _is_shown(item: Mapping[str, Any]) -> bool:
    return item["EventType"] not in (EventType.ORCHESTRATOR_STARTED, EventType.ORCHESTRATOR_COMPLETED)


def _shown_event(item: Mapping[str, Any], outputs: bool) -> dict[str, Any]:
    hidden = {"IsPlayed", "EventId"} | (set() if outputs else {"Result", "Input"})
    shown = {key: value for key, value in item.items() if not key.startswith("_") and key not in hidden}
    shown["EventType"] = EventType(item["EventType"]).name.title().replace("_", "")
    return shown


def flag(query: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """A true/false query value, however it is cased."""
    return query.get(name, str(default)).lower() == "true"


def reply(status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A JSON answer."""
    body = json.dumps(value).encode()
    return Response(status=status, body=body, headers=(("content-type", "application/json; charset=utf-8"), *headers))


def failure(status: int, message: str, exception: str) -> Response:
    """An error in the form the extension uses; the Python client shows ExceptionMessage."""
    return reply(status, {"Message": message, "ExceptionMessage": exception or message, "ExceptionType": "Error"})


def _now() -> datetime:
    return datetime.now(UTC)
