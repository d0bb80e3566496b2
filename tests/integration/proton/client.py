"""A plain AMQP 1.0 client on Qpid Proton: an implementation that is not ours and knows nothing of Service Bus."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import uuid
from types import TracebackType
from typing import Any
from urllib.parse import quote_plus

from proton import Message
from proton.utils import BlockingConnection

CALL_SECONDS_MAX = 10
TOKEN_SECONDS = 600
CBS = "$cbs"


def sas_token(resource: str, key_name: str, key: str, *, seconds: int = TOKEN_SECONDS) -> str:
    """A shared access signature, made as Microsoft's documentation says."""
    expiry, quoted = str(int(time.time()) + seconds), quote_plus(resource)
    digest = hmac.new(key.encode(), f"{quoted}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={quoted}&sig={signature}&se={expiry}&skn={quote_plus(key_name)}"


class ProtonClient:
    """One connection with SASL ANONYMOUS; what needs a claim asks for it with `authorize`."""

    def __init__(self, host: str, *, key_name: str, key: str, heartbeat: float | None = None) -> None:
        self._host, self._key_name, self._key = host, key_name, key
        self.connection: Any = BlockingConnection(
            f"amqp://{host}", timeout=CALL_SECONDS_MAX, heartbeat=heartbeat, allowed_mechs="ANONYMOUS"
        )

    def __enter__(self) -> ProtonClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def put_token(self, entity: str, token: str) -> int:
        """Give a token for an entity through the claims-based-security node; returns the status code."""
        answers = self.connection.create_receiver(CBS, name=f"cbs-answers-{uuid.uuid4()}", credit=1)
        requests = self.connection.create_sender(CBS, name=f"cbs-requests-{uuid.uuid4()}")
        request = Message(
            id=uuid.uuid4(),
            properties={
                "operation": "put-token",
                "type": "servicebus.windows.net:sastoken",
                "name": f"amqp://{self._host}/{entity}",
            },
            body=token,
        )
        requests.send(request)
        answer: Any = answers.receive(timeout=CALL_SECONDS_MAX)
        assert request.id == answer.correlation_id
        requests.close()
        answers.close()
        status = answer.properties["status-code"]
        assert isinstance(status, int)
        return status

    def authorize(self, entity: str) -> None:
        token = sas_token(f"sb://{self._host}/{entity}", self._key_name, self._key)
        assert self.put_token(entity, token) in (200, 202)

    def sender(self, entity: str, **options: Any) -> Any:
        return self.connection.create_sender(entity, **options)

    def receiver(self, entity: str, *, credit: int, **options: Any) -> Any:
        return self.connection.create_receiver(entity, credit=credit, **options)
