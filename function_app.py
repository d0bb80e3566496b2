"""The function app as the Functions host loads it: check the settings, build the app, register the blueprints."""

import azure.functions as func

from functions import closing, coordination, dashboard, entities, events, health, pairing, pings, send, status, syphon
from functions.startup import quiet_libraries, require_usable_settings

quiet_libraries()
require_usable_settings()

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
app.register_functions(health.blueprint)
app.register_functions(send.blueprint)
app.register_functions(pairing.blueprint)
app.register_functions(status.blueprint)
app.register_functions(events.blueprint)
app.register_functions(dashboard.blueprint)
app.register_functions(entities.blueprint)
app.register_functions(pings.make_blueprint())
app.register_functions(syphon.make_blueprint())
app.register_functions(closing.blueprint)
app.register_functions(coordination.blueprint)
