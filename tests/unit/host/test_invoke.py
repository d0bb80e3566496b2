import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from local.host.app_loader import load_app
from local.host.converters import Datum
from local.host.errors import ConfigurationError
from local.host.invoke import FunctionBroke, FunctionTimedOut, Invoker, thread_count
from local.host.model import FunctionSpec
from local.host.threads import FunctionThreads

SOURCE = '''
import asyncio
import threading
import azure.functions as func
import azure.durable_functions as df

app = df.DFApp()
release = threading.Event()

@app.activity_trigger(input_name="value")
def sync_double(value): return value * 2

@app.activity_trigger(input_name="value")
async def async_double(value): return value * 2

@app.activity_trigger(input_name="value")
def block(value):
    release.wait(30)
    return "late"

@app.activity_trigger(input_name="value")
async def hang(value): await asyncio.sleep(30)

@app.activity_trigger(input_name="value")
async def slow_timeout(value): raise TimeoutError("the function's own")

@app.activity_trigger(input_name="value")
def stops(value): raise StopIteration("odd")

@app.activity_trigger(input_name="value")
def exits(value): raise SystemExit(3)

@app.activity_trigger(input_name="value")
async def interrupts(value): raise KeyboardInterrupt()

@app.activity_trigger(input_name="value")
def cancels(value): raise asyncio.CancelledError()

@app.activity_trigger(input_name="value")
async def cancels_async(value): raise asyncio.CancelledError()

@app.activity_trigger(input_name="value")
async def about(value, context: func.Context): return [context.function_name, len(context.invocation_id)]

@app.timer_trigger(schedule="0 * * * * *", arg_name="timer")
def returns_something(timer): return "no binding takes this"
'''


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FunctionSpec]:
    folder = tmp_path_factory.mktemp("app")
    (folder / "function_app.py").write_text(SOURCE)
    app = load_app(Path(folder), on_refused=pytest.fail)
    return {spec.name: spec for spec in app.functions}


@pytest.fixture
def threads() -> Iterator[FunctionThreads]:
    pool = FunctionThreads(2)
    yield pool
    pool.close()


@pytest.fixture
def invoker(threads: FunctionThreads) -> Invoker:
    return Invoker(threads=threads, timeout=timedelta(seconds=0.2))


@pytest.mark.parametrize("name", ["sync_double", "async_double"])
async def test_a_function_is_called_through_the_librarys_converters(
    name: str, functions: dict[str, FunctionSpec], invoker: Invoker
) -> None:
    invocation = await invoker.invoke(functions[name], {"value": Datum("[1, 2]", "string")})
    assert invocation.returned is not None
    assert ("[1, 2, 1, 2]", "json") == (invocation.returned.value, invocation.returned.type)


@pytest.mark.parametrize("name", ["block", "hang"])
async def test_a_function_that_hangs_is_given_up(
    name: str, functions: dict[str, FunctionSpec], invoker: Invoker
) -> None:
    with pytest.raises(FunctionTimedOut, match=name):
        await invoker.invoke(functions[name], {"value": Datum("1", "string")})
    functions["block"].call.__globals__["release"].set()
    functions["block"].call.__globals__["release"].clear()


async def test_hung_threads_do_not_use_the_pool_up(functions: dict[str, FunctionSpec], invoker: Invoker) -> None:
    for _ in range(4):
        with pytest.raises(FunctionTimedOut):
            await invoker.invoke(functions["block"], {"value": Datum("1", "string")})
    answer = await invoker.invoke(functions["sync_double"], {"value": Datum("4", "string")})
    assert answer.returned is not None
    assert "8" == answer.returned.value
    functions["block"].call.__globals__["release"].set()


async def test_the_functions_own_timeout_error_stays_its_own(
    functions: dict[str, FunctionSpec], invoker: Invoker
) -> None:
    with pytest.raises(TimeoutError, match="the function's own"):
        await invoker.invoke(functions["slow_timeout"], {"value": Datum("1", "string")})


async def test_a_stop_iteration_does_not_vanish(functions: dict[str, FunctionSpec], invoker: Invoker) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await invoker.invoke(functions["stops"], {"value": Datum("1", "string")})


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("exits", "SystemExit(3)"),
        ("interrupts", "KeyboardInterrupt()"),
        ("cancels", "CancelledError()"),
        ("cancels_async", "CancelledError()"),
    ],
)
async def test_what_is_meant_for_the_interpreter_or_the_loop_ends_only_the_call(
    name: str, raised: str, functions: dict[str, FunctionSpec], invoker: Invoker
) -> None:
    with pytest.raises(FunctionBroke) as caught:
        await invoker.invoke(functions[name], {"value": Datum("1", "string")})
    assert f"function '{name}' raised {raised}; only its own call ends" == str(caught.value)


@pytest.mark.parametrize("name", ["block", "hang"])
async def test_a_cancelled_call_stays_cancelled(
    name: str, functions: dict[str, FunctionSpec], invoker: Invoker
) -> None:
    call = asyncio.ensure_future(invoker.invoke(functions[name], {"value": Datum("1", "string")}))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    functions["block"].call.__globals__["release"].set()
    functions["block"].call.__globals__["release"].clear()


@pytest.mark.parametrize("give_up", ["abandon", "withdraw"])
async def test_a_call_given_up_while_it_waits_never_begins_and_costs_no_thread(give_up: str) -> None:
    pool = FunctionThreads(1)
    ran: list[str] = []
    release = threading.Event()

    def hold() -> None:
        ran.append("first")
        release.wait(10)

    first = pool.submit(hold)
    getattr(pool.submit(lambda: ran.append("given up")), give_up)()
    last = pool.submit(lambda: ran.append("last"))
    release.set()
    await asyncio.wait_for(asyncio.gather(first.future, last.future), 10)
    assert ["first", "last"] == ran
    # Still one thread: a thread is replaced only when a call has taken it away.
    running = threading.Semaphore(0)
    release.clear()
    calls = [pool.submit(lambda: (running.release(), release.wait(10))) for _ in range(2)]
    assert await asyncio.to_thread(running.acquire, True, 10)
    assert not await asyncio.to_thread(running.acquire, True, 0.1)
    release.set()
    await asyncio.wait_for(asyncio.gather(*(call.future for call in calls)), 10)
    pool.close()


async def test_the_context_knows_the_call(functions: dict[str, FunctionSpec], invoker: Invoker) -> None:
    answer = await invoker.invoke(functions["about"], {"value": Datum("1", "string")})
    assert answer.returned is not None
    assert '["about", 36]' == answer.returned.value


async def test_a_return_value_without_a_binding_is_an_error(
    functions: dict[str, FunctionSpec], invoker: Invoker
) -> None:
    timer = Datum('{"Schedule": {}, "ScheduleStatus": null, "IsPastDue": false}', "json")
    with pytest.raises(RuntimeError, match="return binding"):
        await invoker.invoke(functions["returns_something"], {"timer": timer})


async def test_calls_run_at_once_up_to_the_pools_size_and_then_wait(threads: FunctionThreads) -> None:
    running = threading.Semaphore(0)
    release = threading.Event()

    def call() -> None:
        running.release()
        release.wait(10)

    calls = [threads.submit(call) for _ in range(3)]
    loop = asyncio.get_running_loop()
    for _ in range(2):
        assert await loop.run_in_executor(None, running.acquire, True, 10)
    assert not running.acquire(blocking=False)
    release.set()
    await asyncio.wait([item.future for item in calls], timeout=10)
    assert all(item.future.done() for item in calls)


def test_hung_threads_do_not_hold_the_process() -> None:
    async def leave_one_hanging() -> None:
        FunctionThreads(1).submit(lambda: time.sleep(60))

    started = time.monotonic()
    asyncio.run(leave_one_hanging())
    assert time.monotonic() - started < 10
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "function")


@pytest.mark.parametrize("text", ["0", "-1", "many", "1001"])
def test_a_wrong_thread_count_is_one_clear_line(text: str) -> None:
    with pytest.raises(ConfigurationError, match="PYTHON_THREADPOOL_THREAD_COUNT"):
        thread_count({"PYTHON_THREADPOOL_THREAD_COUNT": text})
