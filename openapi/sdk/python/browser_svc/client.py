"""The clients with blocking calls. Generated from aio.py by openapi/sdk/python/generate: do not edit."""

from __future__ import annotations

import time
import os
from collections.abc import Iterator, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from . import operations
from .base import BaseSession, cloud_and_credential, worker_and_key
from .core import Answer, Call, Operation, Pause, fields, pages, result, send
from .errors import NotFoundError, UnavailableError
from .http import BLOCK, BaseHttp, answer_of, failure, part
from .models import FileInfo, Handover, LicenseState, LogEntry, Machine, Profile, SessionInfo
from .operations import Path

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

T = TypeVar("T")
C = TypeVar("C", bound="_Client")


class Http(BaseHttp):
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        super().__init__(base, headers)
        self._client = httpx.Client(base_url=self.base, headers=headers)

    def close(self) -> None:
        self._client.close()

    def run(self, operation: Operation[T]) -> T:
        """Performs an operation and returns its result."""
        try:
            effect = next(operation)
            while True:
                try:
                    answer = self._perform(effect)
                except BaseException as error:
                    effect = operation.throw(error)
                else:
                    effect = operation.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _perform(self, effect: Call | Pause) -> Answer:
        if isinstance(effect, Pause):
            time.sleep(effect.seconds)
            return Answer()
        try:
            return self._exchange(effect, None if effect.upload is None else _blocks(effect.upload))
        except httpx.TransportError as error:
            return failure(error)

    def _exchange(self, call: Call, content: Any) -> Answer:
        with self._client.stream(**self.request(call), content=content) as response:
            if call.save is None or response.status_code >= 300:
                return answer_of(response, response.read())
            incomplete = part(call.save)
            try:
                file = open(incomplete, "xb")
                with file:
                    for block in response.iter_bytes(BLOCK):
                        file.write(block)
                os.replace(incomplete, call.save)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(incomplete)
            return answer_of(response)

    def lines(self, call: Call) -> Iterator[str]:
        """The lines of an endless answer."""
        try:
            with self._client.stream(**self.request(call)) as response:
                if response.status_code >= 300:
                    result(call, answer_of(response, response.read()))
                for line in response.iter_lines():
                    yield line
        except httpx.TransportError as error:
            result(call, failure(error))


def _blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield block


class _Client:
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        self._headers = headers
        self._http = Http(base, headers)

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def run(self, operation: Operation[T]) -> T:
        return self._http.run(operation)

    def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Sends any other request of the API, and returns `data` of the answer."""
        return self.run(send(Call(method, path, query or {}, body)))


class Svc(_Client):
    """A worker or load balancer, by default that of SVC_WORKER. `key` is the worker key (API_KEY of the worker), by default SVC_API_KEY."""

    def __init__(self, worker: str | None = None, key: str | None = None) -> None:
        super().__init__(*worker_and_key(worker, key))
        self.sessions = Sessions(self)

    def launch(
        self,
        profile: str | None = None,
        *,
        spec: Mapping[str, Any] | None = None,
        proxy: Mapping[str, Any] | None = None,
        wait_seconds: int | None = None,
        webdriver: bool = False,
        **browser: Any,
    ) -> Session:
        """Launches a browser, of a profile or of a spec.

        `profile` is an id, or a name for which the cloud SVC_CLOUD_URL is asked with the access token SVC_TOKEN.
        `browser` are the settings of the launch, such as `headless=False` or `record=["video"]`. `wait_seconds` is how long the launch
        waits for a free slot. With `webdriver`, the browser has a chromedriver for Session.selenium.
        """
        if profile is not None and not operations.is_id(profile):
            with SvcCloud() as cloud:
                profile = (cloud.profiles.find(profile)).id
        body = operations.launch_body(profile, spec, proxy, wait_seconds, browser)
        if webdriver:
            return Session(self, *self.run(operations.launch_webdriver(self._http.base, body)))
        return Session(self, self.run(operations.launch(body)))


class Sessions:
    def __init__(self, svc: Svc) -> None:
        self._svc = svc

    def list(self, **filters: Any) -> list[SessionInfo]:
        """Running sessions and those that ended within the last hour. Filters are those of the API, such as `status="running"`."""
        return self._svc.run(operations.list_sessions(filters))

    def get(self, session: str) -> Session:
        """A session that was launched before, also by another program."""
        return Session(self._svc, self._svc.run(operations.get(self._svc._http.base, session)))


class Session(BaseSession):
    """A browser. It ends with the `with` statement, or with end()."""

    def __init__(self, svc: Svc, info: SessionInfo, driver: dict[str, Any] | None = None) -> None:
        super().__init__(svc._http.base, svc._headers, info, driver)
        self._svc = svc
        self.recording = Recording(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def playwright(self, playwright: Playwright, **options: Any) -> Browser:
        """The browser, connected over CDP. Broken connections are resumed; files are those of this machine."""
        browser: Browser = self._connect(playwright.chromium.connect_over_cdp, options)
        return browser

    def refresh(self) -> SessionInfo:
        self.info = self._svc.run(operations.get(self._root, self.id))
        return self.info

    def view_url(self) -> str:
        """The live view. The link opens one page: treat it like a password."""
        return (self.refresh()).view_url or ""

    def update(self, **changes: Any) -> SessionInfo:
        """Changes limits, name or metadata, such as `max_duration_seconds=7200`."""
        self.info = self._svc.run(operations.update(self._root, self.id, changes))
        return self.info

    def state(self) -> dict[str, Any]:
        """Cookies and storage, for `state` of another launch, or for Playwright's `storage_state`."""
        return self._svc.run(operations.storage_state(self._browser))

    def files(self) -> list[FileInfo]:
        return self._svc.run(operations.list_files(self._browser))

    def download(self, path: Path, name: str | None = None) -> None:
        """Saves the newest file, or the newest of a name, when its download has ended."""
        self._svc.run(operations.download(self._browser, path, name))

    def upload(self, path: Path) -> str:
        """Sends a file to the worker and returns its path for the browser."""
        return self._svc.run(operations.upload(self._browser, path))

    def wait_for_human(self, reason: str, timeout_seconds: int = 600, notify: Callable[[str], object] | None = None) -> Handover:
        """Hands the browser to a person and waits. `notify` gets the link for the person."""
        return self._svc.run(operations.wait_for_human(self._browser, reason, timeout_seconds, notify))

    def logs(self, follow: bool = False) -> Iterator[LogEntry]:
        """Console messages, exceptions and failed requests so far, or until the session ends."""
        if not follow:
            for entry in self._svc.run(operations.logs(self._browser)):
                yield entry
            return
        stream = operations.LogStream(self._browser)
        while not stream.ended:
            try:
                for line in self._svc._http.lines(stream.call()):
                    if new := stream.entry(line):
                        yield new
                if not stream.ended:
                    raise UnavailableError("The service ended the stream of the logs before the session ended.")
            except NotFoundError:  # the session has ended
                return
            except UnavailableError as error:
                time.sleep(stream.pause(error))

    def end(self) -> SessionInfo:
        """Ends the browser and saves the data of its profile. Ending it again has no effect."""
        self._close_relay()
        self.info = self._svc.run(operations.end(self._root, self.id))
        return self.info


class Recording:
    def __init__(self, session: Session) -> None:
        self._session = session

    def start(self, record: list[str]) -> None:
        """Records the parts (`video`, `events`, `frames`, `har`, `trace`) from now on."""
        self._session._svc.run(operations.start_recording(self._session._browser, record))

    def stop(self) -> None:
        self._session._svc.run(operations.stop_recording(self._session._browser))

    def save(self, path: Path, part: str = "", *, format: str | None = None) -> None:
        """Saves the video, or the part `events`, `frames`, `har` or `trace`. `format="mp4"` converts the video."""
        session = self._session
        session._svc.run(operations.save_recording(session._root, session.id, path, part, format))


class SvcCloud(_Client):
    """A cloud, by default SVC_CLOUD_URL. `key` is an organization key, for `license`; `token` is an access token, for everything else.

    Without both, the token is that of SVC_TOKEN.
    """

    def __init__(self, cloud: str | None = None, *, key: str | None = None, token: str | None = None) -> None:
        super().__init__(*cloud_and_credential(cloud, key, token))
        self.profiles, self.license = Profiles(self), License(self)

    def machines(self) -> list[Machine]:
        return [Machine.read(item) for item in self.run(pages("/v1/machines", {}))]

    def usage(self, **query: Any) -> dict[str, Any]:
        """Slots in use over time; `query` is that of the API, such as `step="1d"` (`1m` to `1d`)."""
        usage: dict[str, Any] = self.request("GET", "/v1/license/usage", query=fields(query))
        return usage


class License:
    def __init__(self, cloud: SvcCloud) -> None:
        self._cloud = cloud

    def get(self) -> LicenseState:
        """The slots in use. It needs a key."""
        return LicenseState.read(self._cloud.request("GET", "/v1/license/sessions"))


class Profiles:
    def __init__(self, cloud: SvcCloud) -> None:
        self._cloud = cloud

    def list(self, **filters: Any) -> list[Profile]:
        return self._cloud.run(operations.list_profiles(filters))

    def find(self, name: str) -> Profile:
        """The profile with this name. Names need not be unique: the newest counts."""
        for profile in self.list(search=name, sort_by="createdAt", sort_order="desc"):
            if profile.name == name:
                return profile
        raise NotFoundError(f"There is no profile with the name {name}.")

    def get(self, profile: str) -> Profile:
        return self._cloud.run(operations.profile("GET", f"/{profile}"))

    def create(self, **settings: Any) -> Profile:
        """Creates a profile, such as `name="Shop", browser_version=156, persist=True`."""
        return self._cloud.run(operations.profile("POST", "", settings))

    def update(self, profile: str, **settings: Any) -> Profile:
        return self._cloud.run(operations.profile("PATCH", f"/{profile}", settings))

    def delete(self, profile: str) -> None:
        self._cloud.request("DELETE", f"/v1/profiles/{profile}")
