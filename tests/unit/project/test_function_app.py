"""The app as the Functions library sees it: loaded in a process of its own, with real settings."""

from __future__ import annotations

import json

from functions import health
from shared.version import VERSION
from tests.support.app_process import example_settings, run_python

INDEX = """
import json, azure.functions, function_app
registers = [value for value in vars(function_app).values() if isinstance(value, azure.functions.FunctionRegister)]
assert registers == [function_app.app], "the Functions worker wants exactly one app object"
functions = function_app.app.get_functions()
print(json.dumps({f.get_function_name(): [json.loads(b) for b in f.get_raw_bindings()] for f in functions}))
"""


def test_the_functions_library_indexes_the_app() -> None:
    done = run_python("-W", "error", "-c", INDEX, settings=example_settings())
    assert (0, "") == (done.returncode, done.stderr)
    (trigger,) = [binding for binding in json.loads(done.stdout)["health"] if binding["type"] == "httpTrigger"]
    expected = {"route": "health", "authLevel": "ANONYMOUS", "methods": ["GET"]}
    assert expected == {name: trigger[name] for name in expected}


def test_libraries_that_tell_of_every_request_are_quiet() -> None:
    """The Functions worker's own level lets all of it pass, and everything logged is paid for."""
    code = (
        "import logging; logging.getLogger().setLevel(logging.INFO); import function_app;"
        "quiet = logging.getLogger('azure.core.pipeline.policies.http_logging_policy');"
        "print(quiet.isEnabledFor(logging.INFO), logging.getLogger('shared.x').isEnabledFor(logging.INFO))"
    )
    done = run_python("-c", code, settings=example_settings())
    assert (0, "False True\n") == (done.returncode, done.stdout), done.stderr


def test_health_answers_with_version_and_state() -> None:
    # The decorator leaves a builder behind; the library's own accessor gives back the function itself.
    user_function = health.health.build(auth_level=None).get_user_function()  # type: ignore[attr-defined]
    answer = user_function(None)
    assert (200, "application/json") == (answer.status_code, answer.mimetype)
    assert {"status": "started", "version": VERSION, "settings": "valid"} == json.loads(answer.get_body())


def test_four_mistakes_at_once_stop_the_app_with_four_lines_and_no_secret() -> None:
    settings = example_settings()
    settings |= {"FAILOVER_INTERVAL": "2 minutes", "BACKLOG_QUEUE_COUNT": "0"}
    settings |= {"ServiceBusPrimary": "Endpoint=sb://localhost:5672;SharedAccessKeyName=Root", "PairStateStorage": ""}
    settings |= {"AzureWebJobsStorage": "AccountName=contoso;AccountKey=c2VjcmV0"}
    del settings["ServiceBusSecondary"]

    done = run_python("-c", "import function_app", settings=settings)

    names = ["ServiceBusPrimary", "ServiceBusSecondary", "BACKLOG_QUEUE_COUNT", "FAILOVER_INTERVAL"]
    assert names == [line.partition(": ")[0] for line in done.stderr.splitlines()]
    assert (1, "") == (done.returncode, done.stdout)
    assert "c2VjcmV0" not in done.stderr


def test_the_settings_check_says_what_it_found() -> None:
    done = run_python("scripts/check_settings.py", "local.settings.example.json", settings={})
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("Checked: the settings of local.settings.example.json are valid")
    assert "primary at localhost:5672" in done.stdout


def test_the_environment_wins_over_the_settings_file() -> None:
    arguments = ("scripts/check_settings.py", "local.settings.example.json")
    done = run_python(*arguments, settings={"PRIMARY_NAMESPACE_NAME": "contoso"})
    assert "contoso at localhost:5672" in done.stdout


def test_a_settings_file_that_is_none_is_refused_by_name() -> None:
    missing = run_python("scripts/check_settings.py", "no.such.file", settings={})
    wrong = run_python("scripts/check_settings.py", "host.json", settings={})
    assert (1, "no.such.file: cannot be read: No such file or directory\n") == (missing.returncode, missing.stderr)
    assert wrong.stderr.startswith("host.json: not a settings file; example: ")
