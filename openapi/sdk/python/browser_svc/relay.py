"""A WebSocket on this machine for CDP clients, in front of a resumable connection to a browser.

A broken connection is resumed, so that no message is lost or repeated (`connectBrowser` in the document of the worker). Files pass
too: what the client uploads by path is sent to the worker first, and a download is on this machine when the client is told of its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import threading
import time
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Request, Response

from . import operations
from .aio import AsyncHttp
from .errors import SvcError

RESUME_SECONDS = 30.0  # as long as the worker keeps a connection
HEARTBEAT_SECONDS = 5.0
SILENT_SECONDS = 15.0  # a connection that does not answer for longer hangs
ACK_MESSAGES, ACK_BYTES = 256, 1 << 20
START_SECONDS = 10.0
OWN = b'{"method":"Svc.'  # messages of the worker itself, which are not counted
MAX_REASON = 120  # characters of the reason of a close frame, which has 123 bytes
PROGRESS = b'{"method":"Browser.downloadProgress"'
HEAD = 120  # bytes of a message in which its method is
MAX_MESSAGE = 32_000_000  # bytes of a message that the worker accepts


class Connect(connect):
    """Follows no redirect: the key in the headers is for this worker."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Relay:
    """Runs in a thread, until close. `url` is the address for clients; its path is secret."""

    def __init__(self, target: str, browser: str, base: str, headers: dict[str, str]) -> None:
        self.target, self.browser, self.base, self.headers = target, browser, base, headers
        self.resumed = 0
        self._path = "/" + secrets.token_urlsafe(24)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="browser-svc", daemon=True)
        self._thread.start()
        if not self._started.wait(START_SECONDS) or self._failure:
            raise SvcError("The relay on the loopback interface did not start.") from self._failure

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(START_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            self._failure = error
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self.http = AsyncHttp(self.base, self.headers)
        settings: dict[str, Any] = {"compression": None, "max_size": None, "ping_interval": None, "close_timeout": 1}
        server: Server
        async with serve(self._accept, "127.0.0.1", 0, process_request=self._check, **settings) as server:
            self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}{self._path}"
            self._started.set()
            await self._stop.wait()
        await self.http.close()

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        if secrets.compare_digest(request.path.encode(), self._path.encode()) and "Origin" not in request.headers:
            return None
        return connection.respond(HTTPStatus.NOT_FOUND, "not found\n")

    async def _accept(self, client: ServerConnection) -> None:
        await Link(self, client).run()


class Link:
    """One client and its connection to the browser."""

    def __init__(self, relay: Relay, client: ServerConnection) -> None:
        self.relay, self.client = relay, client
        self.name = secrets.token_hex(16)
        self.received = self.received_bytes = 0  # messages of the browser, and bytes since the last acknowledgement
        self.acknowledged = 0  # messages that the worker has; `pending` are the later ones
        self.pending: deque[bytes] = deque()
        self.more = asyncio.Event()
        self.sockets = 0  # that the worker has accepted
        self.directory = ""  # where the client expects downloads
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        reader = asyncio.create_task(self._read_client())
        browser = asyncio.create_task(self._keep_browser())
        try:
            await asyncio.wait([reader, browser], return_when=asyncio.FIRST_COMPLETED)
        finally:
            tasks = [reader, browser, *self.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_client(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                message = await self.client.recv(decode=False)
                head = message[:HEAD]
                if len(message) > MAX_MESSAGE:
                    await self._refuse(json.loads(message), "The message is larger than 32 MB. Send large files with session.upload().")
                    continue
                if b'"DOM.setFileInputFiles"' in head:
                    if (changed := await self._send_files(message)) is None:
                        continue
                    message = changed
                elif b'.setDownloadBehavior"' in head:
                    self.directory = json.loads(message).get("params", {}).get("downloadPath") or self.directory
                self.pending.append(message)
                self.more.set()

    async def _send_files(self, message: bytes) -> bytes | None:
        """Uploads the files that a call names, and returns the call with the paths of the browser."""
        call = json.loads(message)
        try:
            call["params"]["files"] = [await self._send_file(path) for path in call["params"].get("files", [])]
        except (SvcError, OSError) as error:
            await self._refuse(call, f"The file was not sent to the browser: {error}")
            return None
        return json.dumps(call).encode()

    async def _refuse(self, call: dict[str, Any], message: str) -> None:
        answer = {"id": call["id"], "error": {"code": -32000, "message": message}}
        await self.client.send(json.dumps(answer | ({"sessionId": call["sessionId"]} if "sessionId" in call else {})))

    async def _send_file(self, path: str) -> str:
        if not await asyncio.to_thread(os.path.isfile, path):
            return path  # of the browser
        return await self.relay.http.run(operations.upload(self.relay.browser, path))

    async def _keep_browser(self) -> None:
        """Keeps the connection to the browser, and closes the client's when it has ended."""
        disconnected = time.monotonic()
        status, reason = 1011, "the browser cannot be reached"
        while time.monotonic() - disconnected < RESUME_SECONDS:
            url = f"{self.relay.target}?client={self.name}&resume={self.received}"
            sockets = self.sockets
            try:
                async with Connect(
                    url, additional_headers=self.relay.headers, compression=None, max_size=None, user_agent_header=None,
                    ping_interval=HEARTBEAT_SECONDS, ping_timeout=SILENT_SECONDS, open_timeout=10, close_timeout=1,
                ) as browser:  # fmt: skip
                    await self._forward(browser)
            except ConnectionClosed as closed:
                if closed.rcvd:  # a close frame ends the connection
                    status, reason = closed.rcvd.code, closed.rcvd.reason
                    break
                if self.sockets == sockets:  # it broke before the worker had accepted it
                    await asyncio.sleep(0.1)
                else:
                    disconnected = time.monotonic()
            except InvalidStatus as refused:
                if refused.response.status_code < 500:
                    reason = f"the worker answered {refused.response.status_code}"
                    if location := refused.response.headers.get("Location"):
                        reason = f"{reason} with Location {location!r}"[:MAX_REASON]
                    break
                await asyncio.sleep(0.5)
            except (OSError, InvalidHandshake, TimeoutError):
                await asyncio.sleep(0.1)
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.client.close(status if status in (1000, 1001) or status >= 1007 else 1011, reason)

    async def _forward(self, browser: ClientConnection) -> None:
        """Moves messages until the connection breaks."""
        sender: asyncio.Task[None] | None = None
        try:
            while True:
                message = await browser.recv(decode=False)
                if message.startswith(OWN):
                    self._acknowledge(json.loads(message)["params"]["received"])
                    if sender is None:
                        self.sockets += 1
                        self.relay.resumed += self.sockets > 1
                        sender = asyncio.create_task(self._send(browser))
                    continue
                self.received += 1
                self.received_bytes += len(message)
                if message.startswith(PROGRESS) and b'"completed"' in message:
                    self._start(self._finish_download(message))
                else:
                    await self.client.send(message, text=True)
                if self.received_bytes > ACK_BYTES or self.received % ACK_MESSAGES == 0:
                    await self._send_acknowledgement(browser)
        finally:
            if sender:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)

    def _acknowledge(self, received: int) -> None:
        for _ in range(received - self.acknowledged):
            self.pending.popleft()
        self.acknowledged = received

    async def _send(self, browser: ClientConnection) -> None:
        """Sends the messages that the worker does not have, and heartbeats."""
        sent = self.acknowledged
        with suppress(ConnectionClosed):
            while True:
                self.more.clear()
                while sent < self.acknowledged + len(self.pending):
                    message = self.pending[sent - self.acknowledged]
                    sent += 1
                    await browser.send(message, text=True)
                try:
                    await asyncio.wait_for(self.more.wait(), HEARTBEAT_SECONDS)
                except (TimeoutError, asyncio.TimeoutError):
                    await self._send_acknowledgement(browser)

    async def _send_acknowledgement(self, browser: ClientConnection) -> None:
        self.received_bytes = 0
        await browser.send(b'{"method":"Svc.ack","params":{"seq":%d}}' % self.received, text=True)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _finish_download(self, message: bytes) -> None:
        """Saves a download where the client expects it, and tells the client."""
        event = json.loads(message)
        guid = event["params"]["guid"]
        if self.directory:
            try:
                path = os.path.join(self.directory, guid)
                await self.relay.http.run(operations.download(self.relay.browser, path, None, guid))
            except (SvcError, OSError):
                event["params"]["state"] = "canceled"
        with suppress(ConnectionClosed):
            await self.client.send(json.dumps(event))
