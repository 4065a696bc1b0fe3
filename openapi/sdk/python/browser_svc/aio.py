"""The client for asyncio. Its classes have the methods of `client.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import operations
from .base import BaseSession, worker_and_key
from .core import Call, Operation, fields, pages, send
from .errors import NotFoundError, SvcError, UnavailableError
from .http import AsyncHttp
from .models import FileInfo, Handover, LicenseState, LogEntry, Machine, Profile, SessionInfo
from .operations import Path

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

T = TypeVar("T")
C = TypeVar("C", bound="_AsyncClient")


class _AsyncClient:
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        self._headers = headers
        self._http = AsyncHttp(base, headers)

    async def __aenter__(self: C) -> C:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.close()

    async def run(self, operation: Operation[T]) -> T:
        return await self._http.run(operation)

    async def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        return await self.run(send(Call(method, path, query or {}, body)))


class AsyncSvc(_AsyncClient):
    def __init__(self, worker: str | None = None, key: str | None = None) -> None:
        super().__init__(*worker_and_key(worker, key))
        self.sessions = AsyncSessions(self)

    async def launch(
        self,
        profile: str | None = None,
        *,
        spec: Mapping[str, Any] | None = None,
        proxy: Mapping[str, Any] | None = None,
        wait_seconds: int | None = None,
        **browser: Any,
    ) -> AsyncSession:
        body = operations.launch_body(profile, spec, proxy, wait_seconds, browser)
        return AsyncSession(self, await self.run(operations.launch(body)))


class AsyncSessions:
    def __init__(self, svc: AsyncSvc) -> None:
        self._svc = svc

    async def list(self, **filters: Any) -> list[SessionInfo]:
        return await self._svc.run(operations.list_sessions(filters))

    async def get(self, session: str) -> AsyncSession:
        return AsyncSession(self._svc, await self._svc.run(operations.get(self._svc._http.base, session)))


class AsyncSession(BaseSession):
    def __init__(self, svc: AsyncSvc, info: SessionInfo) -> None:
        super().__init__(svc._http.base, svc._headers, info)
        self._svc = svc
        self.recording = AsyncRecording(self)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.end()

    async def playwright(self, playwright: Playwright, **options: Any) -> Browser:
        browser: Browser = await self._connect(playwright.chromium.connect_over_cdp, options)
        return browser

    async def refresh(self) -> SessionInfo:
        self.info = await self._svc.run(operations.get(self._root, self.id))
        return self.info

    async def view_url(self) -> str:
        return (await self.refresh()).view_url or ""

    async def update(self, **changes: Any) -> SessionInfo:
        self.info = await self._svc.run(operations.update(self._root, self.id, changes))
        return self.info

    async def state(self) -> dict[str, Any]:
        return await self._svc.run(operations.storage_state(self._browser))

    async def files(self) -> list[FileInfo]:
        return await self._svc.run(operations.list_files(self._browser))

    async def download(self, path: Path, name: str | None = None) -> None:
        await self._svc.run(operations.download(self._browser, path, name))

    async def upload(self, path: Path) -> str:
        return await self._svc.run(operations.upload(self._browser, path))

    async def wait_for_human(self, reason: str, timeout_seconds: int = 600, notify: Callable[[str], object] | None = None) -> Handover:
        return await self._svc.run(operations.wait_for_human(self._browser, reason, timeout_seconds, notify))

    async def logs(self, follow: bool = False) -> AsyncIterator[LogEntry]:
        if not follow:
            for entry in await self._svc.run(operations.logs(self._browser)):
                yield entry
            return
        stream = operations.LogStream(self._browser)
        while not stream.ended:
            try:
                async for line in self._svc._http.lines(stream.call()):
                    if new := stream.entry(line):
                        yield new
            except NotFoundError:  # the session has ended
                return
            except UnavailableError as error:
                await asyncio.sleep(stream.pause(error))

    async def end(self) -> SessionInfo:
        await asyncio.to_thread(self._close_relay)
        self.info = await self._svc.run(operations.end(self._root, self.id))
        return self.info


class AsyncRecording:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def start(self, record: list[str]) -> None:
        await self._session._svc.run(operations.start_recording(self._session._browser, record))

    async def stop(self) -> None:
        await self._session._svc.run(operations.stop_recording(self._session._browser))

    async def save(self, path: Path, part: str = "", *, format: str | None = None) -> None:
        session = self._session
        await session._svc.run(operations.save_recording(session._root, session.id, path, part, format))


class AsyncSvcCloud(_AsyncClient):
    def __init__(self, cloud: str, *, key: str | None = None, token: str | None = None) -> None:
        if (key is None) == (token is None):
            raise SvcError("Supply exactly one of key or token.")
        super().__init__(cloud, {"X-API-Key": key} if key is not None else {"Authorization": f"Bearer {token}"})
        self.profiles, self.license = AsyncProfiles(self), AsyncLicense(self)

    async def machines(self) -> list[Machine]:
        return [Machine.read(item) for item in await self.run(pages("/v1/machines", {}))]

    async def usage(self, **query: Any) -> dict[str, Any]:
        usage: dict[str, Any] = await self.request("GET", "/v1/license/usage", query=fields(query))
        return usage


class AsyncLicense:
    def __init__(self, cloud: AsyncSvcCloud) -> None:
        self._cloud = cloud

    async def get(self) -> LicenseState:
        return LicenseState.read(await self._cloud.request("GET", "/v1/license/sessions"))


class AsyncProfiles:
    def __init__(self, cloud: AsyncSvcCloud) -> None:
        self._cloud = cloud

    async def list(self, **filters: Any) -> list[Profile]:
        return await self._cloud.run(operations.list_profiles(filters))

    async def get(self, profile: str) -> Profile:
        return await self._cloud.run(operations.profile("GET", f"/{profile}"))

    async def create(self, **settings: Any) -> Profile:
        return await self._cloud.run(operations.profile("POST", "", settings))

    async def update(self, profile: str, **settings: Any) -> Profile:
        return await self._cloud.run(operations.profile("PATCH", f"/{profile}", settings))

    async def delete(self, profile: str) -> None:
        await self._cloud.request("DELETE", f"/v1/profiles/{profile}")
