import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.host_fixtures import ToyLog, until
from tests.support.host_setup import RunningHost, StartHost

# The durable library warns of an event that comes before anybody waits for it.
pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion")


@pytest.fixture
async def host(start_host: StartHost) -> AsyncIterator[RunningHost]:
    async with start_host() as running:
        yield running


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("chain", 3, 12),
        ("fan_out", 60, sum(range(60)) * 2),
        ("parent", None, [4, 8]),
        ("many_steps", None, ["A", 12, ["C0", "C1", "C2"], "D"]),
        ("retrying", {"name": "twice", "fails": 2, "attempts": 3}, ["worked", 8, 10]),
    ],
)
async def test_orchestrations_end_with_their_output(host: RunningHost, name: str, value: Any, expected: Any) -> None:
    status = await host.finished(await host.start(name, value))
    assert ("Completed", expected, value) == (status["runtimeStatus"], status["output"], status["input"])


async def test_custom_status_is_shown(host: RunningHost) -> None:
    status = await host.finished(await host.start("chain", 3))
    assert {"first": 6} == status["customStatus"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("failing", "Orchestrator function 'failing' failed: broken on purpose"),
        ("unknown_activity", "The function 'no_such_activity' doesn't exist"),
        ("entity_caller", "call_entity is not supported by the local host"),
    ],
)
async def test_a_failed_orchestration_says_why(host: RunningHost, name: str, said: str) -> None:
    status = await host.finished(await host.start(name))
    assert "Failed" == status["runtimeStatus"]
    assert said in status["output"]


async def test_failures_of_activities_and_children_reach_the_orchestrator_as_text(host: RunningHost) -> None:
    activity = await host.finished(await host.start("failing_activity"))
    assert activity["output"].startswith("Activity function 'flaky' failed: not yet \n ")
    child = await host.finished(await host.start("failing_child"))
    assert "Orchestrator function 'failing' failed: broken on purpose" in child["output"]


async def test_retries_end_after_the_last_attempt(host: RunningHost, toy_log: ToyLog) -> None:
    status = await host.finished(await host.start("retrying", {"name": "never", "fails": 9, "attempts": 2}))
    assert "Failed" == status["runtimeStatus"]
    assert 2 == len(toy_log.entries("flaky"))


@pytest.mark.parametrize(("send_event", "expected"), [(True, '{"ok": true}'), (False, "timeout")])
async def test_a_timer_or_an_event_whichever_comes_first(host: RunningHost, send_event: bool, expected: str) -> None:
    """An event from the Python client arrives as a string that holds JSON: the library encodes it twice."""
    instance_id = await host.start("timer_or_event", {"seconds": 30 if send_event else 1})
    if send_event:
        await host.reaches(instance_id, "Running")
        await host.manage("event", instance_id, {"ok": True}, name="go")
    status = await host.finished(instance_id)
    assert {"before": "BEFORE", "outcome": expected, "after": "AFTER"} == status["output"]


async def test_an_event_posted_as_plain_json_arrives_as_it_is(host: RunningHost) -> None:
    instance_id = await host.start("timer_or_event", {"seconds": 30})
    path = f"/runtime/webhooks/durabletask/instances/{instance_id}/raiseEvent/go"
    key = {"x-functions-key": host.host.keys.system["durabletask_extension"]}
    assert 400 == (await host.client.post(path, headers={**key, "content-type": "text/plain"}, content="x")).status_code
    assert 401 == (await host.client.post(path, json={"ok": 1})).status_code
    assert 202 == (await host.client.post(path, headers=key, json={"ok": 1})).status_code
    assert {"ok": 1} == (await host.finished(instance_id))["output"]["outcome"]


async def test_an_early_event_is_seen_by_every_later_wait(host: RunningHost) -> None:
    """A known behaviour of the durable library, which a faithful host must not hide."""
    instance_id = await host.start("timer_or_event", {"seconds": 30}, "early")
    await host.manage("event", instance_id, name="go")
    assert "null" == (await host.finished(instance_id))["output"]["outcome"]


async def test_completion_waits_for_a_timer_that_was_not_cancelled(host: RunningHost) -> None:
    instance_id = await host.start("uncancelled")
    await host.reaches(instance_id, "Running")
    await host.manage("event", instance_id, name="go")
    await asyncio.sleep(0)
    assert 202 == (await host.status(instance_id)).status_code
    assert "event" == (await host.finished(instance_id))["output"]


async def test_continue_as_new_loses_no_event(host: RunningHost) -> None:
    instance_id = await host.start("counter", 0)
    await asyncio.gather(*(host.manage("event", instance_id, n, name="add") for n in range(1, 21)))
    await host.manage("event", instance_id, "end", name="add")
    assert 210 == (await host.finished(instance_id))["output"]


async def test_terminate_ends_an_instance_with_its_reason(host: RunningHost) -> None:
    instance_id = await host.start("timer_or_event", {"seconds": 60})
    await host.manage("terminate", instance_id)
    status = await host.finished(instance_id)
    assert ("Terminated", "because") == (status["runtimeStatus"], status["output"])


async def test_a_suspended_instance_keeps_its_events_until_it_is_resumed(host: RunningHost) -> None:
    instance_id = await host.start("timer_or_event", {"seconds": 60})
    await host.reaches(instance_id, "Running")
    await host.manage("suspend", instance_id)
    await host.reaches(instance_id, "Suspended")
    await host.manage("event", instance_id, "x", name="go")
    assert "Suspended" == (await host.status(instance_id)).json()["runtimeStatus"]
    await host.manage("resume", instance_id)
    assert '"x"' == (await host.finished(instance_id))["output"]["outcome"]


async def test_purge_and_restart(host: RunningHost) -> None:
    instance_id = await host.start("chain", 5)
    await host.finished(instance_id)
    fresh = await host.manage("restart", instance_id)
    assert 20 == (await host.finished(fresh))["output"]
    assert 1 == await host.manage("purge", instance_id)
    assert 404 == (await host.status(instance_id)).status_code
    assert 0 == await host.manage("purge", instance_id)


async def test_the_status_of_an_unknown_instance_is_falsy_not_an_error(host: RunningHost) -> None:
    assert {} == await host.manage("status", "nobody")


async def test_finished_and_unknown_instances_take_no_events(host: RunningHost) -> None:
    instance_id = await host.start("chain", 1)
    await host.finished(instance_id)
    key = {"x-functions-key": host.host.keys.master}
    for wanted, expected in ((instance_id, 410), ("nobody", 404)):
        path = f"/runtime/webhooks/durabletask/instances/{wanted}/raiseEvent/go"
        assert expected == (await host.client.post(path, headers=key, json=1)).status_code


async def test_an_id_that_is_running_cannot_be_started_again_but_a_finished_one_can(host: RunningHost) -> None:
    await host.start("timer_or_event", {"seconds": 60}, "mine")
    again = await host.client.post("/api/start/chain/mine", headers=host.key, json=1)
    assert 500 == again.status_code
    await host.manage("terminate", "mine")
    await host.finished("mine")
    await host.start("chain", 2, "mine")
    assert 8 == (await host.finished("mine"))["output"]


@pytest.mark.parametrize(
    ("path", "said"),
    [("nobody", "doesn't exist"), ("chain/@entity", "'@'"), ("chain/a%23b", "'#'"), ("chain/" + "x" * 257, "256")],
)
async def test_a_wrong_name_or_id_is_a_clear_400(host: RunningHost, path: str, said: str) -> None:
    key = {"x-functions-key": host.host.keys.master}
    answer = await host.client.post(f"/runtime/webhooks/durabletask/orchestrators/{path}", headers=key, json=1)
    assert 400 == answer.status_code
    assert said in answer.json()["ExceptionMessage"]


async def test_instances_are_listed_and_filtered(host: RunningHost) -> None:
    one = await host.start("chain", 1, "list-one")
    two = await host.start("timer_or_event", {"seconds": 60}, "list-two")
    await host.finished(one)
    await host.reaches(two, "Running")
    key = {"x-functions-key": host.host.keys.master}

    async def ids(**query: str) -> list[str]:
        answer = await host.client.get(
            "/runtime/webhooks/durabletask/instances", headers=key, params={"instanceIdPrefix": "list-", **query}
        )
        return [str(item["instanceId"]) for item in answer.json()]

    assert [one, two] == await ids()
    assert [one] == await ids(runtimeStatus="Completed,Failed")
    assert [two] == await ids(runtimeStatus="Running")
    assert [] == await ids(createdTimeTo="2020-01-01T00:00:00Z")
    assert "list-one" in {item["instanceId"] for item in await host.manage("all", "x")}
    await host.manage("terminate", two)


async def test_history_is_shown_on_request(host: RunningHost) -> None:
    instance_id = await host.start("chain", 1)
    await host.finished(instance_id)
    events = (await host.status(instance_id, showHistory="true")).json()["historyEvents"]
    kinds = [event["EventType"] for event in events]
    assert ["ExecutionStarted", "TaskScheduled", "TaskCompleted", "TaskScheduled", "TaskCompleted"] == kinds[:5]
    assert "Result" not in json.dumps(events)


async def test_large_inputs_and_outputs_survive(host: RunningHost, toy_log: ToyLog) -> None:
    text = "".join(chr(97 + n % 26) for n in range(300_000))
    instance_id = await host.start("timer_or_event", {"seconds": 60, "padding": text})
    await host.reaches(instance_id, "Running")
    await host.manage("event", instance_id, text, name="go")
    assert json.dumps(text) == (await host.finished(instance_id))["output"]["outcome"]
    await until(lambda: len(toy_log.entries("step")) == 2)


async def test_unsupported_parts_of_the_api_are_refused_by_name(host: RunningHost) -> None:
    key = {"x-functions-key": host.host.keys.master}
    base = "/runtime/webhooks/durabletask"
    rewind = await host.client.post(f"{base}/instances/x/rewind", headers=key)
    entity = await host.client.get(f"{base}/entities/a/b", headers=key)
    assert [501, 501] == [rewind.status_code, entity.status_code]
    assert ("rewind" in rewind.text, "entities" in entity.text) == (True, True)


async def test_two_hosts_share_a_hub_and_one_of_them_runs_it(start_host: StartHost, toy_log: ToyLog) -> None:
    async with start_host() as first, start_host() as second:
        ids = [await (first, second)[n % 2].start("chain", n) for n in range(10)]
        outputs = [(await second.finished(instance_id))["output"] for instance_id in ids]
        assert [n * 4 for n in range(10)] == outputs
        assert 20 == len(toy_log.entries("double"))
        event = await second.start("timer_or_event", {"seconds": 60})
        await first.reaches(event, "Running")
        await second.manage("event", event, 1, name="go")
        assert "1" == (await second.finished(event))["output"]["outcome"]


async def test_the_hub_moves_when_its_host_stops(start_host: StartHost) -> None:
    async with start_host() as second:
        async with start_host() as first:
            instance_id = await first.start("timer_or_event", {"seconds": 60})
            await second.reaches(instance_id, "Running")
        await second.manage("event", instance_id, 1, name="go")
        assert "1" == (await second.finished(instance_id))["output"]["outcome"]
