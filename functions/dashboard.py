"""GET /api/dashboard: the live page.

It is put together from functions/static once and served as one answer: one call of the function where the plan counts
calls, and never a script of one version with the style of another while a deployment replaces instances. It holds no
data and so needs no key; what it shows it asks the other functions for, with the keys that its reader gives it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

import azure.functions as func

STATIC = Path(__file__).parent / "static"
_STYLE = re.compile(r'<link rel="stylesheet" href="([a-z]+\.css)">')
_SCRIPT = re.compile(r'<script src="([a-z]+\.js)"></script>')

blueprint = func.Blueprint()  # type: ignore[no-untyped-call]  # the library leaves its __init__ untyped


class Page(NamedTuple):
    html: bytes
    headers: dict[str, str]


@blueprint.route(route="dashboard", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
def dashboard(req: func.HttpRequest) -> func.HttpResponse:
    page = build_page()
    if req.headers.get("if-none-match") == page.headers["ETag"]:
        return func.HttpResponse(status_code=304, headers=page.headers)
    return func.HttpResponse(page.html, headers=page.headers, mimetype="text/html", charset="utf-8")


@functools.cache
def build_page() -> Page:
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    styles, scripts = ([_read(name) for name in pattern.findall(html)] for pattern in (_STYLE, _SCRIPT))
    html = _STYLE.sub(lambda found: f"<style>{_read(found[1])}</style>", html)
    html = _SCRIPT.sub(lambda found: f"<script>{_read(found[1])}</script>", html)
    content = html.encode()
    headers = {
        "Content-Security-Policy": _policy(styles, scripts),
        "Cache-Control": "no-cache",
        "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return Page(content, headers)


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _policy(styles: list[str], scripts: list[str]) -> str:
    """Nothing but the page's own scripts and styles runs, and nothing but its own origin is asked."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, styles))}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
