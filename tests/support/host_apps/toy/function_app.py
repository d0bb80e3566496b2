"""A toy app with every kind of trigger; what each call saw is appended to the file named by TOY_LOG."""

# mypy: ignore-errors
# Written as users write functions: without annotations where the libraries want none.

import asyncio
import datetime
import json
import os
import time
import typing

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)


def note(kind: str, **values: typing.Any) -> None:
    with open(os.environ["TOY_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps({"kind": kind, **values}) + "\n")


# HTTP


@app.route(route="hello/{name?}", auth_level=func.AuthLevel.ANONYMOUS)
def hello(req: func.HttpRequest) -> func.HttpResponse:
    shown = {
        "method": req.method,
        "url": req.url,
        "route": dict(req.route_params),
        "query": dict(req.params),
        "headers": dict(req.headers),
        "body": req.get_body().decode("utf-8", "replace"),
    }
    return func.HttpResponse(json.dumps(shown), mimetype="application/json", headers={"x-toy": "1"})


@app.route(route="text", auth_level=func.AuthLevel.ANONYMOUS)
async def text(req: func.HttpRequest) -> str:
    return "plain"


@app.route(route="guarded")
async def guarded(req: func.HttpRequest, context: func.Context) -> str:
    return context.function_name


@app.route(route="master", auth_level=func.AuthLevel.ADMIN, methods=["POST"])
async def master(req: func.HttpRequest) -> str:
    return "master"


@app.route(route="numbers/{id:int:range(1,10)}", auth_level=func.AuthLevel.ANONYMOUS, methods=["GET"])
async def numbers(req: func.HttpRequest) -> str:
    return f"number {req.route_params['id']}"


@app.route(route="numbers/{*rest}", auth_level=func.AuthLevel.ANONYMOUS)
async def rest(req: func.HttpRequest) -> str:
    return f"rest {req.route_params.get('rest')}"


@app.route(route="cookies", auth_level=func.AuthLevel.ANONYMOUS)
async def cookies(req: func.HttpRequest) -> func.HttpResponse:
    response = func.HttpResponse("two", status_code=201)
    response.headers.add("Set-Cookie", "a=1; Path=/")
    response.headers.add("Set-Cookie", "b=2")
    return response


@app.route(route="raises", auth_level=func.AuthLevel.ANONYMOUS)
async def raises(req: func.HttpRequest) -> str:
    raise RuntimeError("on purpose")


@app.route(route="returns/{what}", auth_level=func.AuthLevel.ANONYMOUS)
async def returns(req: func.HttpRequest):
    return {"none": None, "dict": {"a": 1}, "bytes": b"b", "int": 1}[req.route_params["what"]]


@app.route(route="hangs/{how}", auth_level=func.AuthLevel.ANONYMOUS)
async def hangs(req: func.HttpRequest) -> str:
    await asyncio.sleep(3600)
    return "never"


@app.route(route="blocks", auth_level=func.AuthLevel.ANONYMOUS)
def blocks(req: func.HttpRequest) -> str:
    time.sleep(3600)
    return "never"


# Timers


@app.timer_trigger(schedule="%TOY_SCHEDULE%", arg_name="timer", run_on_startup=True)
async def every_second(timer: func.TimerRequest) -> None:
    note("timer", past_due=timer.past_due, status=timer.schedule_status, schedule=timer.schedule)


# Service Bus


@app.service_bus_queue_trigger(arg_name="msg", queue_name="%TOY_QUEUE%", connection="ToyBus")
def take_text(msg: func.ServiceBusMessage) -> None:
    body = msg.get_body().decode()
    note(
        "text", body=body, message_id=msg.message_id, delivery_count=msg.delivery_count, to=msg.to,
        subject=msg.subject, user_properties=msg.user_properties, correlation_id=msg.correlation_id,
        sequence_number=msg.sequence_number, enqueued=str(msg.enqueued_time_utc), ttl=msg.time_to_live,
        locked_until=msg.locked_until, content_type=msg.content_type, partition_key=msg.partition_key,
        dead_letter_reason=msg.dead_letter_reason, session_id=msg.session_id, lock_token=msg.lock_token,
        metadata=sorted(msg.metadata),
    )  # fmt: skip
    if body.startswith("fail"):
        raise RuntimeError("on purpose")


@app.service_bus_queue_trigger(
    arg_name="msg", queue_name="toy-binary", connection="ToyBus", data_type=func.DataType.BINARY
)
@app.service_bus_queue_output(arg_name="out", queue_name="toy-results", connection="ToyBus")
async def take_binary(msg: func.ServiceBusMessage, out: func.Out[str]) -> None:
    note("binary", body=msg.get_body().hex(), to=msg.to, message_id=msg.message_id)
    if msg.get_body().startswith(b"slow"):
        await asyncio.sleep(float(msg.get_body()[4:].decode()))
    out.set(f"done {msg.message_id}")


@app.service_bus_queue_trigger(
    arg_name="msgs", queue_name="toy-batch", connection="ToyBus", cardinality=func.Cardinality.MANY
)
async def take_batch(msgs: typing.List[func.ServiceBusMessage]) -> None:  # noqa: UP006  # the worker wants this form
    note("batch", bodies=[msg.get_body().decode() for msg in msgs], correlation=[msg.correlation_id for msg in msgs],
         ids=[msg.message_id for msg in msgs])  # fmt: skip
    if any(msg.get_body() == b"fail" for msg in msgs):
        raise RuntimeError("on purpose")


@app.service_bus_queue_trigger(
    arg_name="msg", queue_name="toy-sessions", connection="ToyBus", is_sessions_enabled=True
)
async def take_session(msg: func.ServiceBusMessage) -> None:
    note("session begin", body=msg.get_body().decode(), session_id=msg.session_id)
    await asyncio.sleep(0.05)
    note("session end", body=msg.get_body().decode(), session_id=msg.session_id)


@app.service_bus_topic_trigger(arg_name="msg", topic_name="toy-topic", subscription_name="toy-sub", connection="ToyBus")
async def take_subscription(msg: func.ServiceBusMessage) -> None:
    note("subscription", body=msg.get_body().decode())


@app.service_bus_queue_trigger(
    arg_name="msg", queue_name="toy-manual", connection="ToyBus", auto_complete_messages=False
)
async def take_and_leave(msg: func.ServiceBusMessage) -> None:
    note("manual", delivery_count=msg.delivery_count)


@app.service_bus_queue_trigger(arg_name="msg", queue_name="%TOY_QUEUE%/$DeadLetterQueue", connection="ToyBus")
async def take_dead(msg: func.ServiceBusMessage) -> None:
    note("dead", body=msg.get_body().decode(), reason=msg.dead_letter_reason, user_properties=msg.user_properties)


@app.service_bus_queue_trigger(arg_name="msg", queue_name="no-such-queue", connection="ToyBus")
async def take_nothing(msg: func.ServiceBusMessage) -> None:
    note("impossible")


# Durable


@app.route(route="start/{name}/{id?}")
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    body = req.get_body()
    instance_id = await client.start_new(
        req.route_params["name"], req.route_params.get("id"), json.loads(body) if body else None
    )
    return client.create_check_status_response(req, instance_id)


@app.route(route="manage/{verb}/{id}")
@app.durable_client_input(client_name="client")
async def manage(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    instance_id, verb = req.route_params["id"], req.route_params["verb"]
    answer: typing.Any = None
    if verb == "event":
        body = req.get_body()
        await client.raise_event(instance_id, req.params["name"], json.loads(body) if body else None)
    elif verb == "status":
        status = await client.get_status(instance_id, show_input=True)
        answer = status.to_json() if status else {}
    elif verb == "purge":
        answer = (await client.purge_instance_history(instance_id)).instances_deleted
    elif verb == "all":
        answer = [status.to_json() for status in await client.get_status_all()]
    elif verb == "restart":
        answer = await client.restart(instance_id)
    else:
        await getattr(client, verb)(instance_id, "because")
    return func.HttpResponse(json.dumps(answer), mimetype="application/json")


@app.activity_trigger(input_name="value")
def double(value: int) -> int:
    note("double", value=value)
    return value * 2


@app.activity_trigger(input_name="value")
def flaky(value: dict) -> str:
    note("flaky", **value)
    marker = f"{os.environ['TOY_LOG']}.{value['name']}"
    with open(marker, "a", encoding="utf-8") as tries:
        tries.write("x")
    if os.path.getsize(marker) <= value["fails"]:
        raise ValueError("not yet")
    return "worked"


@app.activity_trigger(input_name="value")
async def steps(value: str) -> str:
    note("step", value=value)
    await asyncio.sleep(0.02)
    return value.upper()


@app.orchestration_trigger(context_name="context")
def chain(context: df.DurableOrchestrationContext):
    first = yield context.call_activity("double", context.get_input())
    context.set_custom_status({"first": first})
    second = yield context.call_activity("double", first)
    return second


@app.orchestration_trigger(context_name="context")
def timer_or_event(context: df.DurableOrchestrationContext):
    """The two branches of a wait: whichever comes first decides."""
    options = context.get_input()
    before = yield context.call_activity("steps", "before")
    due = context.current_utc_datetime + datetime.timedelta(seconds=options["seconds"])
    timer = context.create_timer(due)
    event = context.wait_for_external_event("go")
    winner = yield context.task_any([timer, event])
    if winner == event:
        timer.cancel()
        outcome = event.result
    else:
        outcome = "timeout"
    after = yield context.call_activity("steps", "after")
    return {"before": before, "outcome": outcome, "after": after}


@app.orchestration_trigger(context_name="context")
def uncancelled(context: df.DurableOrchestrationContext):
    timer = context.create_timer(context.current_utc_datetime + datetime.timedelta(seconds=2))
    event = context.wait_for_external_event("go")
    winner = yield context.task_any([timer, event])
    return "event" if winner == event else "timer"


@app.orchestration_trigger(context_name="context")
def fan_out(context: df.DurableOrchestrationContext):
    results = yield context.task_all([context.call_activity("double", n) for n in range(context.get_input())])
    return sum(results)


@app.orchestration_trigger(context_name="context")
def parent(context: df.DurableOrchestrationContext):
    one = yield context.call_sub_orchestrator("chain", 1)
    two = yield context.call_sub_orchestrator("chain", 2, "named-child-of-" + context.instance_id)
    return [one, two]


@app.orchestration_trigger(context_name="context")
def retrying(context: df.DurableOrchestrationContext):
    options = context.get_input()
    retry = df.RetryOptions(first_retry_interval_in_milliseconds=100, max_number_of_attempts=options["attempts"])
    both = yield context.task_all(
        [
            context.call_activity_with_retry("flaky", retry, {"name": options["name"], "fails": options["fails"]}),
            context.call_activity("double", 4),
        ]
    )
    last = yield context.call_activity("double", 5)
    return [*both, last]


@app.orchestration_trigger(context_name="context")
def failing(context: df.DurableOrchestrationContext):
    yield context.call_activity("double", 1)
    raise ValueError("broken on purpose")


@app.orchestration_trigger(context_name="context")
def failing_activity(context: df.DurableOrchestrationContext):
    try:
        yield context.call_activity("flaky", {"name": "never", "fails": 1000})
    except Exception as error:
        return str(error)


@app.orchestration_trigger(context_name="context")
def failing_child(context: df.DurableOrchestrationContext):
    try:
        yield context.call_sub_orchestrator("failing", None)
    except Exception as error:
        return str(error)


@app.orchestration_trigger(context_name="context")
def counter(context: df.DurableOrchestrationContext):
    """Continues as new on every event, so that none may be lost."""
    total = context.get_input() or 0
    value = yield context.wait_for_external_event("add")
    value = json.loads(value) if isinstance(value, str) else value
    if value == "end":
        return total
    context.continue_as_new(total + value)


@app.orchestration_trigger(context_name="context")
def two_waits(context: df.DurableOrchestrationContext):
    first = yield context.wait_for_external_event("go")
    second = yield context.wait_for_external_event("go")
    return [first, second]


@app.orchestration_trigger(context_name="context")
def unknown_activity(context: df.DurableOrchestrationContext):
    yield context.call_activity("no_such_activity", None)


@app.orchestration_trigger(context_name="context")
def entity_caller(context: df.DurableOrchestrationContext):
    yield context.call_entity(df.EntityId("counter", "x"), "add", 1)


@app.orchestration_trigger(context_name="context")
def many_steps(context: df.DurableOrchestrationContext):
    """Several steps one after the other, with a timer and a child between: each a place to be killed."""
    a = yield context.call_activity("steps", "a")
    yield context.create_timer(context.current_utc_datetime + datetime.timedelta(milliseconds=50))
    b = yield context.call_sub_orchestrator("chain", 3)
    c = yield context.task_all([context.call_activity("steps", f"c{n}") for n in range(3)])
    d = yield context.call_activity("steps", "d")
    return [a, b, c, d]
