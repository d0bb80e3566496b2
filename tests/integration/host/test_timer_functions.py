import asyncio
from datetime import UTC, datetime, timedelta

from local.host.converters import Datum
from local.host.host import HOST_ID_SETTING, Host
from local.host.invoke import RetryContext
from local.host.leases import LEASE_DURATION, Leases, Owner, new_owner
from local.host.model import FunctionSpec
from local.host.schedule import parse_schedule
from local.host.storage import Storage, StorageAddress
from local.host.timers import TimerListener, TimerStatus, TimerStatusStore, first_run
from tests.support.host_fixtures import AzuriteProcess, ToyLog, until, until_async
from tests.support.host_setup import StartHost

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def timer_spec(**trigger: object) -> FunctionSpec:
    """A timer function without an app: the listener never calls it itself."""
    binding = {"type": "timerTrigger", "name": "timer", "schedule": "0 * * * * *", **trigger}
    return FunctionSpec(
        name="tick", function_id="", directory="", call=print, is_async=False, requires_context=False,
        inputs={}, outputs={}, returns=None, trigger=binding, bindings=(binding,),
    )  # fmt: skip


async def test_a_timer_runs_on_start_up_and_on_its_schedule(start_host: StartHost, toy_log: ToyLog) -> None:
    async with start_host(every_second="on", TOY_SCHEDULE="* * * * * *"):
        await until(lambda: len(toy_log.entries("timer")) >= 3)
    assert [False, False, False] == [entry["past_due"] for entry in toy_log.entries("timer")[:3]]
    assert [{}] == [entry["status"] for entry in toy_log.entries("timer")[:1]]


async def test_a_timer_missed_while_the_host_was_down_runs_once_and_is_past_due(
    start_host: StartHost, toy_log: ToyLog
) -> None:
    schedule = "0 0 0 1 1 *"
    async with start_host(every_second="on", TOY_SCHEDULE=schedule) as host:
        await until(lambda: len(toy_log.entries("timer")) == 1)
        statuses = await _statuses(host.host)
        missed = TimerStatus(last=NOW - timedelta(days=800), next=NOW - timedelta(days=400), schedule=schedule)
        # The status is written after the call; only then may it be made to look old.
        await until_async(lambda: statuses.read("every_second"))
        await statuses.write("every_second", missed)
    async with start_host(every_second="on", TOY_SCHEDULE=schedule):
        await until(lambda: len(toy_log.entries("timer")) == 2)
    entry = toy_log.entries("timer")[1]
    assert entry["past_due"]
    assert missed.next.isoformat() == entry["status"]["Next"]


async def _statuses(host: Host) -> TimerStatusStore:
    assert host._storage is not None
    return TimerStatusStore(await host._storage.table("LocalHostState"), host.settings[HOST_ID_SETTING])


def test_past_due_beats_run_on_start_up_and_a_changed_schedule_is_not_past_due() -> None:
    schedule = parse_schedule("0 0 * * * *")
    late = TimerStatus(last=NOW, next=NOW, schedule="0 0 * * * *")
    other = TimerStatus(last=NOW, next=NOW, schedule="0 30 * * * *")
    after = NOW + timedelta(seconds=1)
    outcomes = [first_run(status, schedule, after, run) for status in (late, other, None) for run in (False, True)]
    assert [(True, True), (True, True), (False, False), (True, False), (False, False), (True, False)] == [
        (outcome.run_now, outcome.past_due) for outcome in outcomes
    ]


async def test_of_two_hosts_one_runs_the_timer_and_the_other_takes_over(azurite: AzuriteProcess) -> None:
    runs: list[str] = []
    storage = Storage(StorageAddress(connection_string=azurite.connection_string))
    table = await storage.table("TwoHosts")

    def listener(name: str) -> TimerListener:
        async def run(spec: FunctionSpec, datum: Datum, retry: RetryContext) -> None:
            runs.append(name)

        return TimerListener(
            spec=timer_spec(runOnStartup=True), schedule=parse_schedule("00:00:01"),
            leases=Leases(table, new_owner()), statuses=TimerStatusStore(table, "two"), run=run,
        )  # fmt: skip

    first = asyncio.create_task(listener("first").serve())
    await until(lambda: len(runs) >= 1)
    second = asyncio.create_task(listener("second").serve())
    await until(lambda: len(runs) >= 4)
    assert {"first"} == set(runs)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await until(lambda: "second" in runs)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await storage.close()


async def test_a_timer_never_overlaps_itself_and_failures_are_tried_again_as_told(azurite: AzuriteProcess) -> None:
    storage = Storage(StorageAddress(connection_string=azurite.connection_string))
    table = await storage.table("Overlap")
    running = overlaps = 0
    attempts: list[int] = []

    async def run(spec: FunctionSpec, datum: Datum, retry: RetryContext) -> None:
        nonlocal running, overlaps
        running += 1
        overlaps += running > 1
        attempts.append(retry.retry_count)
        await asyncio.sleep(0.3)
        running -= 1
        raise RuntimeError("on purpose")

    spec = FunctionSpec(
        **{
            **vars(timer_spec(runOnStartup=True)),
            "retry": {"strategy": "fixed_delay", "max_retry_count": "2", "delay_interval": "00:00:00"},
        }
    )
    listener = TimerListener(
        spec=spec, schedule=parse_schedule("00:00:00.1"), leases=Leases(table, new_owner()),
        statuses=TimerStatusStore(table, "overlap"), run=run,
    )  # fmt: skip
    task = asyncio.create_task(listener.serve())
    by_hand = asyncio.create_task(listener.run_once())
    await until(lambda: len(attempts) >= 6)
    for item in (task, by_hand):
        item.cancel()
    await asyncio.gather(task, by_hand, return_exceptions=True)
    assert 0 == overlaps
    assert [0, 1, 2, 0, 1, 2] == attempts[:6]
    await storage.close()


async def test_a_lease_is_held_until_its_time_is_over_or_its_process_is_gone(azurite: AzuriteProcess) -> None:
    storage = Storage(StorageAddress(connection_string=azurite.connection_string))
    table = await storage.table("Leases")
    one, two = Leases(table, new_owner()), Leases(table, new_owner())
    assert await one.acquire("x", NOW)
    assert await one.acquire("x", NOW)
    assert not await two.acquire("x", NOW + LEASE_DURATION / 2)
    assert await two.acquire("x", NOW + LEASE_DURATION * 2)
    await one.release("x")
    assert not await one.acquire("x", NOW + LEASE_DURATION * 2)
    await two.release("x")
    dead = Leases(table, Owner(**{**vars(new_owner()), "pid": 2**22 + 1, "started": "1"}))
    assert await dead.acquire("x", NOW)
    assert await one.acquire("x", NOW)
    await storage.close()


async def test_a_timer_can_be_run_by_hand_with_the_master_key(start_host: StartHost, toy_log: ToyLog) -> None:
    async with start_host(every_second="on", TOY_SCHEDULE="0 0 0 1 1 *") as host:
        await until(lambda: len(toy_log.entries("timer")) == 1)
        path = "/admin/functions/every_second"
        assert 401 == (await host.client.post(path, json={})).status_code
        master = {"x-functions-key": host.host.keys.master}
        assert 202 == (await host.client.post(path, headers=master, json={})).status_code
        await until(lambda: len(toy_log.entries("timer")) == 2)
