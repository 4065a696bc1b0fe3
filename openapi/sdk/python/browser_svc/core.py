"""Requests, retries and answers, without input and output.

An operation is a generator: it yields calls and pauses, which `AsyncHttp` or `Http` performs, and returns its result.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from .errors import BY_CODE, Detail, LimitError, SvcError, UnavailableError

MAX_PAUSE = 30.0  # seconds between two attempts, and the longest Retry-After that is waited for

T = TypeVar("T")


@dataclass
class Call:
    """A request. `save` is the file to write the answer to, `upload` the file to send."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    save: str | os.PathLike[str] | None = None
    upload: str | os.PathLike[str] | None = None
    timeout: float = 60.0
    safe: bool = False  # a repeated request has no further effect
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Answer:
    """The answer to a call. Without a status, the connection failed."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    failure: Exception | None = None
    sent: bool = True  # the service may have received the request


@dataclass
class Pause:
    seconds: float


Operation: TypeAlias = Generator[Call | Pause, Answer, T]


def send(call: Call, retries: int = 4, launch: dict[str, Any] | None = None) -> Operation[Any]:
    """Sends a call, repeats it where that is safe, and returns `data` of the answer.

    `launch` is the part of the body with `waitSeconds`, which is the time for all attempts together.
    """
    wait, began = (launch or {}).get("waitSeconds", 0), time.monotonic()
    if call.method == "POST" and call.safe:
        call.headers["Idempotency-Key"] = str(uuid.uuid4())
    call.safe = call.safe or call.method in ("GET", "DELETE")
    for attempt in range(retries + 1):
        answer = yield call
        pause = _pause(call, answer, attempt)
        if pause is None or attempt == retries:
            break
        if launch and wait:
            launch["waitSeconds"] = math.ceil(began + wait - time.monotonic() - pause)
            if launch["waitSeconds"] <= 0:
                break
        yield Pause(pause)
    return result(call, answer)


def _pause(call: Call, answer: Answer, attempt: int) -> float | None:
    """Returns the seconds until the next attempt, or None if there must not be one."""
    if answer.failure:
        repeat = call.safe or not answer.sent
    else:
        # With 429 and 503 nothing was done. The answers to an idempotent request that is still in progress have Retry-After.
        in_progress = answer.status == 409 and "Idempotency-Key" in call.headers and "retry-after" in answer.headers
        repeat = answer.status in (429, 503) or in_progress or (call.safe and answer.status in (500, 502, 504))
    if not repeat:
        return None
    after = _retry_after(answer)
    if after is not None:
        return after if after <= MAX_PAUSE else None
    return float(min(MAX_PAUSE, 0.25 * 2**attempt) * random.uniform(0.5, 1))


def _retry_after(answer: Answer) -> float | None:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def result(call: Call, answer: Answer) -> Any:
    """Returns `data` of an answer, or raises its error."""
    if answer.failure:
        raise UnavailableError(f"{call.method} {call.path} failed: {answer.failure or type(answer.failure).__name__}") from answer.failure
    try:
        content = json.loads(answer.content) if answer.content else None
    except ValueError:
        content = None
    if answer.status < 300:
        return content.get("data", content) if isinstance(content, dict) else content
    raise _error(answer, content)


def _error(answer: Answer, content: Any) -> SvcError:
    body: Any = content if isinstance(content, dict) else {}
    error = body.get("error")
    if not isinstance(error, dict):  # of WebDriver, or a text
        value = body.get("value") or {}
        data = value.get("data") or {}
        error = {"code": data.get("code", ""), "message": value.get("message"), "details": data.get("details")}
    code = error.get("code") or ("RESOURCE_NOT_FOUND" if answer.status == 404 else "")
    kind = BY_CODE.get(code, UnavailableError if answer.status in (502, 503, 504) else SvcError)
    limits = ["limit" in (detail.get("constraint") or {}) for detail in error.get("details") or []]
    if answer.status == 402 or (answer.status == 403 and any(limits)):
        kind = LimitError
    message = error.get("message") or answer.content[:200].decode(errors="replace") or f"The service answered {answer.status}."
    if answer.status < 400 and (location := answer.headers.get("location")):
        message = f"The service redirects to {location}, which is not followed: supply the address to which it redirects."
    return kind(
        message,
        code=code,
        status=answer.status,
        details=[
            Detail(**{name: detail[name] for name in Detail.__annotations__ if name in detail}) for detail in error.get("details") or []
        ],
        request_id=answer.headers.get("x-request-id", ""),
        retry_after=_retry_after(answer),
    )


def pages(path: str, query: Mapping[str, Any]) -> Operation[list[dict[str, Any]]]:
    """Returns the items of all pages of a list."""
    items: list[dict[str, Any]] = []
    page = 1
    while True:
        data = yield from send(Call("GET", path, {**query, "page": page, "limit": 100}))
        items += data["items"]
        if not data.get("pagination", {}).get("hasNext"):
            return items
        page += 1


def api_name(name: str) -> str:
    """Returns the name of a field of the API."""
    first, *rest = name.split("_")
    return first + "".join(part.upper() if part in ("http", "https") else part.capitalize() for part in rest)


def fields(settings: Mapping[str, Any], *, nulls: bool = False) -> dict[str, Any]:
    """Returns the settings under the names of the API, without those that are None unless `nulls`."""
    return {api_name(name): value for name, value in settings.items() if nulls or value is not None}
