"""What a function with a durable client binding is given: where to reach the durable HTTP API."""

from __future__ import annotations

import json

PLACEHOLDER = "INSTANCEID"
WEBHOOK_PATH = "runtime/webhooks/durabletask"


def client_payload(*, origin: str, rpc_base_url: str, hub: str, system_key: str) -> str:
    """The binding's JSON; public addresses carry the system key, the RPC address needs none."""
    query = f"taskHub={hub}&connection=Storage&code={system_key}"
    base = f"{origin}/{WEBHOOK_PATH}"
    instance = f"{base}/instances/{PLACEHOLDER}"
    create = f"{base}/orchestrators/{{functionName}}[/{{instanceId}}]"
    return json.dumps(
        {
            "taskHubName": hub,
            "creationUrls": {
                "createNewInstancePostUri": f"{create}?code={system_key}",
                "createAndWaitOnNewInstancePostUri": (
                    f"{create}?timeout={{timeoutInSeconds}}&pollingInterval={{intervalInSeconds}}&code={system_key}"
                ),
            },
            "managementUrls": {
                "id": PLACEHOLDER,
                "statusQueryGetUri": f"{instance}?{query}",
                "sendEventPostUri": f"{instance}/raiseEvent/{{eventName}}?{query}",
                "terminatePostUri": f"{instance}/terminate?reason={{text}}&{query}",
                "rewindPostUri": f"{instance}/rewind?reason={{text}}&{query}",
                "purgeHistoryDeleteUri": f"{instance}?{query}",
                "restartPostUri": f"{instance}/restart?{query}",
                "suspendPostUri": f"{instance}/suspend?reason={{text}}&{query}",
                "resumePostUri": f"{instance}/resume?reason={{text}}&{query}",
            },
            "baseUrl": base,
            "requiredQueryStringParameters": query,
            "rpcBaseUrl": rpc_base_url,
        }
    )
