"""The operations of both APIs that this package offers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import UUID

from .core import Call, Operation, Pause, fields, pages, send
from .errors import ConflictError, SvcError
from .models import FileInfo, Handover, LogEntry, Profile, SessionInfo

START_SECONDS = 120.0  # the limits of the worker for a start with its checks
END_SECONDS = 120.0  # the end of a session saves its data
RECORDING_SECONDS = 60.0
MAX_FAILURES = 5  # connections in a row for logs

Path = str | os.PathLike[str]


def is_id(profile: str) -> bool:
    try:
        return str(UUID(profile)) == profile.lower()
    except ValueError:
        return False


def launch_body(
    profile: str | None,
    spec: Mapping[str, Any] | None,
    proxy: Mapping[str, Any] | None,
    wait_seconds: int | None,
    browser: Mapping[str, Any],
) -> dict[str, Any]:
    body = fields({"profile_id": profile, "browser": fields(browser), "proxy_override": proxy, "wait_seconds": wait_seconds})
    if spec is not None or profile is None:
        body["spec"] = dict(spec or {})
    return body


def launch(body: dict[str, Any]) -> Operation[SessionInfo]:
    timeout = START_SECONDS + body.get("waitSeconds", 0)
    return SessionInfo.read((yield from send(Call("POST", "/sessions/profile", body=body, timeout=timeout), launch=body)))


def launch_webdriver(base: str, body: dict[str, Any]) -> Operation[tuple[SessionInfo, dict[str, Any]]]:
    """Launches a browser with a chromedriver, and returns the answer of WebDriver too."""
    body = {"waitSeconds": 0, **body}
    options = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "svc:options": body}}}
    timeout = START_SECONDS + body["waitSeconds"]
    answer = yield from send(Call("POST", "/wd/hub/session", body=options, timeout=timeout), launch=body)
    driver = answer["value"]
    svc = driver["capabilities"]["svc:session"]
    worker = _root_of_url(base, svc["webSocketDebuggerUrl"])
    try:
        return (yield from get(worker, svc["sessionId"])), driver
    except GeneratorExit:
        raise
    except BaseException:  # the program could not end the browser
        with suppress(SvcError):
            yield from send(Call("DELETE", f"{worker}/wd/hub/session/{driver['sessionId']}", timeout=END_SECONDS), retries=1)
        raise


def root(base: str, info: SessionInfo) -> str:
    """The URL of the worker of a session, which is one of several behind a load balancer."""
    return _root_of_url(base, info.web_socket_debugger_url) if info.web_socket_debugger_url else base


def _root_of_url(base: str, url: str) -> str:
    """The path is that of the answer; the host is the one that this client reaches."""
    own = urlsplit(base)
    return urlunsplit((own.scheme, own.netloc, urlsplit(url).path.split("/browsers/")[0], "", ""))


def get(root: str, session: str) -> Operation[SessionInfo]:
    return SessionInfo.read((yield from send(Call("GET", f"{root}/sessions/{session}"))))


def end(root: str, session: str) -> Operation[SessionInfo]:
    return SessionInfo.read((yield from send(Call("DELETE", f"{root}/sessions/{session}", timeout=END_SECONDS))))


def update(root: str, session: str, changes: Mapping[str, Any]) -> Operation[SessionInfo]:
    return SessionInfo.read((yield from send(Call("PATCH", f"{root}/sessions/{session}", body=fields(changes, nulls=True), safe=True))))


def list_sessions(filters: Mapping[str, Any]) -> Operation[list[SessionInfo]]:
    return [SessionInfo.read(item) for item in (yield from pages("/sessions", fields(filters)))]


def storage_state(browser: str) -> Operation[dict[str, Any]]:
    state: dict[str, Any] = yield from send(Call("GET", f"{browser}/state"))
    return state


def list_files(browser: str) -> Operation[list[FileInfo]]:
    return [FileInfo.read(item) for item in (yield from pages(f"{browser}/files", {}))]


def download(browser: str, path: Path, name: str | None, file: str = "latest") -> Operation[None]:
    """Saves a file. The answer follows a download that has not ended."""
    query = {} if name is None else {"name": name}
    yield from send(Call("GET", f"{browser}/files/{file}", query, save=path))


def upload(browser: str, path: Path) -> Operation[str]:
    """Returns the path of the file for the browser."""
    name = quote(os.path.basename(path), safe="")
    stored = yield from send(Call("PUT", f"{browser}/files/{name}", upload=path))
    return str(stored["path"])


def wait_for_human(browser: str, reason: str, timeout_seconds: int, notify: Callable[[str], object] | None) -> Operation[Handover]:
    body = {"reason": reason, "timeoutSeconds": timeout_seconds}
    started = yield from send(Call("POST", f"{browser}/handover", body=body))
    try:
        if notify:
            notify(started["viewUrl"])
        while True:
            state = yield from send(Call("GET", f"{browser}/handover", {"waitSeconds": 30}))
            if state["status"] != "open":
                return Handover.read(state)
    except GeneratorExit:
        raise
    except BaseException:  # the program does not wait any longer
        yield from send(Call("DELETE", f"{browser}/handover"), retries=0)
        raise


def logs(browser: str) -> Operation[list[LogEntry]]:
    data = yield from send(Call("GET", f"{browser}/logs", {"limit": 1000}))
    return [LogEntry.read(item) for item in data["items"]]


class LogStream:
    """Reads the server-sent events of the logs."""

    def __init__(self, browser: str) -> None:
        self.browser, self.ended = browser, False
        self._last = self._event = ""
        self._failures = 0

    def call(self) -> Call:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self._last} if self._last else {})
        return Call("GET", f"{self.browser}/logs", headers=headers)

    def pause(self, error: SvcError) -> float:
        """The seconds until the next attempt after a broken connection."""
        self._failures += 1
        if self._failures > MAX_FAILURES:
            raise error
        return 0.5 * self._failures

    def entry(self, line: str) -> LogEntry | None:
        name, _, value = line.partition(": ")
        if name == "event":
            self._event, self.ended = value, value == "end"
        elif name == "id":
            self._last = value
        elif name == "data" and self._event == "entry":
            self._failures = 0
            return LogEntry.read(json.loads(value))
        return None


def start_recording(browser: str, record: list[str]) -> Operation[None]:
    yield from send(Call("POST", f"{browser}/recording", body={"record": record}))


def stop_recording(browser: str) -> Operation[None]:
    yield from send(Call("DELETE", f"{browser}/recording"), retries=0)


def save_recording(root: str, session: str, path: Path, part: str, video: str | None) -> Operation[None]:
    """Waits until the recording is complete and saves a part of it. `har` is available before."""
    deadline = time.monotonic() + RECORDING_SECONDS
    while True:
        info = yield from get(root, session)
        state = (info.recording or {}).get("state")
        if state is None or state == "failed":
            raise SvcError("The session has no recording: launch with record=['video'], or call recording.start().")
        if state != "recording" or part == "har":
            break
        if info.status == "running" or time.monotonic() > deadline:
            raise ConflictError("The session is still being recorded: call recording.stop() or end() first.")
        yield Pause(0.3)
    address = f"{root}/sessions/{session}/recording" + (f"/{part}" if part else "")
    yield from send(Call("GET", address, fields({"format": video}), save=path))


def list_profiles(filters: Mapping[str, Any]) -> Operation[list[Profile]]:
    return [Profile.read(item) for item in (yield from pages("/v1/profiles", fields(filters)))]


def profile(method: str, path: str, settings: Mapping[str, Any] | None = None) -> Operation[Profile]:
    body = None if settings is None else fields(settings, nulls=True)
    return Profile.read((yield from send(Call(method, f"/v1/profiles{path}", body=body, safe=True))))
