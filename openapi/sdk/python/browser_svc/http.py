"""What AsyncHttp and Http have in common."""

from __future__ import annotations

import os
import secrets
from typing import Any

import httpx

from .core import Answer, Call

BLOCK = 1 << 20


class BaseHttp:
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        self.base, self.headers = base.rstrip("/"), headers

    def request(self, call: Call) -> dict[str, Any]:
        headers = dict(call.headers)
        if call.upload is not None:
            headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(os.path.getsize(call.upload))}
        return {
            "method": call.method,
            "url": call.path,
            "params": {name: str(value).lower() if isinstance(value, bool) else value for name, value in call.query.items()},
            "json": call.body,
            "headers": headers,
            "timeout": httpx.Timeout(call.timeout, connect=10),
        }


def failure(error: Exception) -> Answer:
    return Answer(failure=error, sent=not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)))


def answer_of(response: httpx.Response, content: bytes = b"") -> Answer:
    return Answer(response.status_code, response.headers, content)


def part(path: str | os.PathLike[str]) -> str:
    """A name in the same directory, for a file until it is complete."""
    return os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.part")
