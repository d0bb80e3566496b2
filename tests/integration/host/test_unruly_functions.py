"""Functions that raise what is meant for the interpreter or the event loop: their call fails, the host goes on."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from local.host.tasks import report_end
from tests.support.host_fixtures import ToyLog, until
from tests.support.host_setup import StartHost

if TYPE_CHECKING:
    from local.broker.broker import Broker

SOURCE = '''
import asyncio, json, os, sys
import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)

def note(kind, **values):
    with open(os.environ["TOY_LOG"], "a") as log:
        log.write(json.dumps({"kind": kind, **values}) + "\\n")

@app.route(route="exits")
def exits(req: func.HttpRequest) -> str: sys.exit(3)

@app.route(route="interrupts")
async def interrupts(req: func.HttpRequest) -> str: sys.exit(4)

@app.route(route="fine")
async def fine(req: func.HttpRequest) -> str: return "fine"

@app.service_bus_queue_trigger(arg_name="msg", queue_name="toy", connection="ToyBus")
def take(msg: func.ServiceBusMessage) -> None:
    note("taken", body=msg.get_body().decode())
    if msg.get_body() == b"exit":
        sys.exit(3)

@app.timer_trigger(schedule="* * * * * *", arg_name="timer", run_on_startup=True)
async def ticks(timer: func.TimerRequest) -> None:
    note("tick")
    raise asyncio.CancelledError()

@app.activity_trigger(input_name="value")
async def gives_up(value: str) -> str: raise asyncio.CancelledError()

if not os.environ.get("TOY_GONE"):
    @app.activity_trigger(input_name="value")
    async def leaves(value: str) -> str:
        note("began")
        await asyncio.sleep(60)

@app.orchestration_trigger(context_name="context")
def outlives(context: df.DurableOrchestrationContext):
    return (yield context.call_activity("leaves", ""))

@app.orchestration_trigger(context_name="context")
def waits(context: df.DurableOrchestrationContext):
    return (yield context.call_activity("gives_up", ""))

@app.route(route="start/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    started = await client.start_new(req.route_params["name"])
    return client.create_check_status_response(req, started)
'''


@pytest.fixture
def unruly_host(start_host: StartHost, tmp_path: Path) -> StartHost:
    (tmp_path / "toy" / "function_app.py").write_text(SOURCE, encoding="utf-8")
    return start_host


async def test_a_function_that_exits_fails_its_call_and_the_host_goes_on(
    unruly_host: StartHost, broker: "Broker", toy_log: ToyLog, caplog: pytest.LogCaptureFixture
) -> None:
    string = broker["toy"].connection_string
    async with (
        unruly_host(ToyBus=string) as host,
        ServiceBusClient.from_connection_string(string) as client,
        client.get_queue_sender("toy") as sender,
    ):
        await sender.send_messages([ServiceBusMessage("exit"), ServiceBusMessage("fine")])
        # Abandoned and delivered again until the queue's limit of three.
        await until(lambda: len(toy_log.entries("taken")) == 4)
        assert [500, 500, 200] == [(await host.get(f"/api/{name}")).status_code for name in _HTTP]
    assert ["exit"] * 3 + ["fine"] == sorted(entry["body"] for entry in toy_log.entries("taken"))
    assert "function 'take' raised SystemExit(3); only its own call ends" in caplog.text


async def test_a_timer_that_raises_a_cancellation_keeps_its_schedule(
    unruly_host: StartHost, toy_log: ToyLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with unruly_host():
        await until(lambda: len(toy_log.entries("tick")) >= 3)
    assert "function 'ticks' raised CancelledError()" in caplog.text


async def test_an_activity_that_raises_a_cancellation_fails_its_orchestration(unruly_host: StartHost) -> None:
    async with unruly_host() as host:
        status = await host.finished(await host.start("waits"))
    assert "Failed" == status["runtimeStatus"]
    assert "function 'gives_up' raised CancelledError()" in status["output"]


async def test_an_activity_that_is_gone_after_a_restart_fails_its_orchestration(
    unruly_host: StartHost, toy_log: ToyLog
) -> None:
    async with unruly_host() as host:
        instance = await host.start("outlives")
        await until(lambda: toy_log.entries("began"))
        assert host.host._worker is not None
        # As when the process is killed: the activity's answer never comes.
        await host.host._worker._drop_work()
    async with unruly_host(TOY_GONE="yes") as host:
        status = await host.finished(instance)
    assert "Failed" == status["runtimeStatus"]
    assert "The function 'leaves' doesn't exist, is disabled, or is not an activity function." in status["output"]


async def test_a_task_that_fails_unseen_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise KeyError("nobody looks")

    task = asyncio.create_task(fail(), name="an errand")
    task.add_done_callback(report_end)
    await asyncio.wait((task,))
    await asyncio.sleep(0)
    assert ["an errand ended: KeyError: 'nobody looks'"] == [record.getMessage() for record in caplog.records]


async def test_a_stop_of_the_host_still_cancels_what_runs(unruly_host: StartHost) -> None:
    """The timer waits for its next second when the host stops: that cancellation is no failure of a function."""
    async with unruly_host() as host:
        timers = [task for task in host.host._tasks if task.get_name() == "timer ticks"]
    assert [True] == [task.cancelled() for task in timers]


_HTTP = ("exits", "interrupts", "fine")
