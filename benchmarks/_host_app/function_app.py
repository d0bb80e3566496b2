"""The smallest functions: what is left is the host's own cost."""

import json
import time

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
taken: list[float] = []


@app.route(route="async_noop")
async def async_noop(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("ok")


@app.route(route="sync_noop")
def sync_noop(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("ok")


@app.route(route="progress")
async def progress(req: func.HttpRequest) -> func.HttpResponse:
    """How many messages came, and the time from the first to the last."""
    seconds = taken[-1] - taken[0] if taken else 0.0
    return func.HttpResponse(json.dumps({"count": len(taken), "seconds": seconds}), mimetype="application/json")


@app.service_bus_queue_trigger(
    arg_name="msg", queue_name="bench", connection="BenchBus", data_type=func.DataType.BINARY
)
async def take(msg: func.ServiceBusMessage) -> None:
    taken.append(time.perf_counter())
