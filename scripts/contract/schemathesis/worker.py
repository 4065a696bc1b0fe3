"""What requests to the worker need: a browser that runs, one to end, tabs, and sockets."""

from __future__ import annotations

import base64
import io
import json
import re
import time
import zipfile
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlparse

import requests

from api import Api, Refused
from identities import Identity, bearer, cookie, key, metrics
from surface import Call, Surface, operation_id

_UPGRADES = {
    "connectBrowser",
    "connectPage",
    "connectRootBrowser",
    "connectRootPage",
    "connectDesktop",
    "launchBrowser",
    "connectWebDriver",
}
_COMMANDS = {"getWebDriverState": "title", "sendWebDriverCommand": "url", "deleteWebDriverState": "cookie"}
_LAUNCHES = {"launchProfile", "launchBrowser"}
_PAGES = {"openDevtools", "openBrowser", "viewBrowser"}  # each accepts a token from the address once
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "contract", "version": "1.0"},
    },
}
_MAX_EXTENSIONS = 20  # of a launch
_ROOM_TIME = 20.0  # seconds until a full worker must have room again
_MAX_HANDOVER_WAIT = 60  # seconds
_PICTURE_TIME = 2  # seconds until a browser has surely shown a picture


_FILE_NAME = re.compile(r"[^/\\\x00-\x1f\x7f-\x9f]{1,255}")


def _is_extension(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


class Browser:
    """A running session, with what opens it."""

    def __init__(self, session: dict[str, Any]) -> None:
        address = urlparse(session["webSocketDebuggerUrl"])
        self.id: str = session["id"]
        self.launch: str = session["launchId"]
        self.guid = address.path.rsplit("/", 1)[-1]
        self.token = parse_qs(address.query)["ct"][0]
        self.ticket = ""
        self.page = ""


class Worker(Surface):
    """The worker API. One browser stays for all requests; what ends browsers gets one of its own now and then."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__()
        self._seed = seed
        self._api = Api.at(seed["workerUrl"]).keyed(seed["workerKey"])
        self._console = self._sign_in()
        self._standing = self._begin()
        self._recorded = self._record()
        self._recording_cookie = self._open_recording()
        self._ended = self._end(self._launch())
        self.preparations = {
            "listAndroidModels": self._version,
            "launchProfile": self._launch_profile,
            "launchBrowser": self._launch_browser,
            "createExtension": self._create_extension,
            "getExtension": self._extension,
            "deleteExtension": self._extension,
            "getBrowserSession": self._session,
            "killBrowserSession": self._kill,
            "closeBrowser": self._close,
            "navigatePage": self._navigate,
            "startHandover": self._start_handover,
            "cancelHandover": self._open_handover,
            "completeHandover": self._open_handover,
            "getHandover": self._get_handover,
            "captureScreenshot": self._page_query,
            "capturePdf": self._page_query,
            "connectBrowser": self._connect,
            "connectPage": self._connect,
            "connectRootBrowser": self._connect,
            "connectRootPage": self._connect,
            "connectDesktop": self._connect,
            "sendMcpMessage": self._send_mcp,
            "openMcpStream": self._without_mcp_session,
            "endMcpSession": self._end_mcp,
            "activateTarget": self._tab,
            "activateRootTarget": self._tab,
            "closeTarget": self._tab,
            "closeRootTarget": self._tab,
            "createWebDriverSession": self._create_driven,
            "connectWebDriver": self._command,
            "endWebDriverSession": self._end_driven,
            "createFile": self._create_file,
            "downloadFile": self._file,
            "deleteFile": self._file,
            "listSessionFiles": self._session_file,
            "downloadSessionFile": self._session_file,
            "deleteSessionFile": self._session_file,
            "downloadSessionFiles": self._session_file,
            "downloadRecording": self._recording,
            "getRecordingEvents": self._recording,
            "downloadRecordingFrames": self._recording,
            "openRecordingPlayer": self._recording,
            "createRecordingTicket": self._recording,
        } | dict.fromkeys(_COMMANDS, self._command)

    def identities(self) -> list[Identity]:
        seed, browser = self._seed, self._standing
        plain = browser.launch.replace("-", "")
        organization = seed["organizationKey"]
        return [
            Identity("nobody"),
            key("wrong key", "wrk_wrong"),
            key("worker key", seed["workerKey"], "workerKey"),
            Identity("console cookie", frozenset({"consoleCookie"}), cookies={"svc_console": self._console}),
            Identity("wrong console cookie", cookies={"svc_console": "wrong"}),
            Identity("console token as token", headers={"X-Svc-Token": self._console}),
            Identity(
                "recording cookie",
                frozenset({"recordingCookie"}),
                cookies={"svc_recording": self._recording_cookie},
            ),
            Identity("recording cookie as console cookie", cookies={"svc_console": self._recording_cookie}),
            key("organization key", organization, "organizationKey"),
            metrics(seed["metricsToken"]),
            Identity(
                "organization bearer",
                frozenset({"organizationBearer"}),
                headers={"Authorization": f"Bearer {organization}"},
            ),
            Identity(
                "WebDriver basic",
                frozenset({"webDriverBasic"}),
                headers={"Authorization": "Basic " + base64.b64encode(f"user:{organization}".encode()).decode()},
            ),
            Identity("organization env", frozenset({"organizationEnv"})),  # the environment of /launch carries it
            key("revoked key", seed["revokedKey"]),
            bearer("owner", seed["owner"]["token"], None),
            cookie("owner's cookie", seed["owner"]["token"], None),
            Identity("wrong token", headers={"X-Svc-Token": "wrong"}),
            Identity("control token", frozenset({"controlToken"}), headers={"X-Svc-Token": browser.token}),
            Identity(
                "control bearer",
                frozenset({"controlBearer"}),
                headers={"Authorization": f"Bearer {browser.token}"},
            ),
            Identity(
                "control basic",
                frozenset({"controlBasic"}),
                headers={"Authorization": "Basic " + base64.b64encode(f"user:{browser.token}".encode()).decode()},
            ),
            Identity("control cookie", frozenset({"controlCookie"}), cookies={f"svc_ctl_{plain}": browser.token}),
            Identity("control query", frozenset({"controlQuery"}), query={"ct": browser.token}),
            Identity("view ticket", frozenset({"viewCookie"}), cookies={f"svc_view_{plain}": browser.ticket}),
            Identity("view ticket query", frozenset({"viewQuery"}), query={"t": browser.ticket}),
            Identity("ticket as token", headers={"X-Svc-Token": browser.ticket}),
        ]

    def steady(self, case: Any) -> Identity:
        wanted = [one for one in self.identities() if one.name in ("worker key", "organization key")]
        return next((one for one in wanted if one.accepted(case.operation)), wanted[0])

    def choose(self, case: Any, chance: Any) -> Identity:
        self._stand()
        return super().choose(case, chance)

    def before_all(self, call: Call) -> None:
        if call.linked:
            return
        if call.odds(0.9):
            call.aim(launchId=self._standing.launch)
        # The tokens are the credential's to send; made up ones would only be sent along with it.
        if call.identity.accepted(call.case.operation) and not call.identity.query:
            call.case.query = {name: value for name, value in call.case.query.items() if name not in ("ct", "t")}
        if call.identity.query and operation_id(call.case) in _PAGES and call.odds(0.7):
            call.identity = self._unused(call.identity)

    def _unused(self, identity: Identity) -> Identity:
        """The same credential, which has opened no page yet."""
        made = self._api.call("POST", f"/browsers/{self._standing.launch}/view-ticket")
        fresh = {"ct": made["controlToken"], "t": made["viewTicket"]}
        return replace(identity, query={name: fresh[name] for name in identity.query})

    def _sign_in(self) -> str:
        """The token of a new console cookie."""
        address = f"{self._api.base}/console/session"
        response = self._api.session.post(address, headers=self._api.headers, timeout=30)
        response.raise_for_status()
        token = response.cookies["svc_console"]
        self._api.session.cookies.clear()  # the other requests have the worker key only
        return str(token)

    # Browsers of the stage's own

    def _launch(self) -> Browser:
        """A browser, once the worker has room for it: those of before may still be ending."""
        end = time.monotonic() + _ROOM_TIME
        while True:
            try:
                return Browser(self._api.call("POST", "/sessions/profile", {"profileId": self._seed["profileId"]}))
            except Refused as refusal:
                if refusal.status != requests.codes.service_unavailable or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def _begin(self) -> Browser:
        browser = self._launch()
        made = self._api.call("POST", f"/browsers/{browser.launch}/view-ticket")
        browser.ticket = made["viewTicket"]
        return browser

    def _end(self, browser: Browser) -> Browser:
        self._api.call("DELETE", f"/sessions/{browser.id}")
        return browser

    def _stand(self) -> None:
        """Sees to it that the browser for all requests is there: one of them may have ended it."""
        if self._api.call("GET", f"/sessions/{self._standing.id}")["status"] != "running":
            self._standing = self._begin()

    def _target(self, path: str = "list") -> str:
        method = "PUT" if path == "new" else "GET"
        address = f"{self._api.base}/browsers/{self._standing.launch}/json/{path}"
        response = self._api.session.request(method, address, headers=self._api.headers, timeout=30)
        if not response.ok:  # it is about to end: the next request finds another
            return "gone"
        found = response.json()
        pages = [found] if path == "new" else [one for one in found if one["type"] == "page"]
        return str(pages[0]["id"]) if pages else self._target("new")

    # Preparations

    def _version(self, call: Call) -> None:
        if isinstance(call.case.query.get("browserVersion"), int) and call.odds(0.8):
            call.ask(browserVersion=self._seed["browserVersion"])

    def _launch_profile(self, call: Call) -> None:
        body = call.case.body
        if not isinstance(body, dict):
            return
        # Each browser takes half a second of a processor; most requests stop short of one, at a profile or a version that
        # is not there.
        if "profileId" in body and call.odds(0.3):
            call.fill(profileId=self._seed["profileId"])
        # Most generated states are refused by the browser, at the cost of one: a cookie of no domain, an unknown origin.
        settings = body.get("browser")
        if isinstance(settings, dict) and isinstance(settings.get("state"), dict):
            state = {"cookies": [{"name": "a", "value": "b", "domain": "example.com", "path": "/"}], "origins": []}
            call.fill(browser={**settings, "state": state})
        spec = body.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("browserVersion"), int) and call.odds(0.3):
            call.fill(spec={**spec, "browserVersion": self._seed["browserVersion"]})

        self._known_extensions(call)

    def _known_extensions(self, call: Call) -> None:
        """A valid list of made up extensions becomes one that the worker has."""
        settings = call.case.body.get("browser")
        wanted = settings.get("extensions") if isinstance(settings, dict) else None
        if isinstance(wanted, list) and all(_is_extension(one) for one in wanted) and len(wanted) <= _MAX_EXTENSIONS:
            call.fill(browser={**settings, "extensions": [self._stored()][: len(wanted)]})

    @staticmethod
    def _packed(name: str) -> bytes:
        """The package of an extension."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            manifest = {"manifest_version": 3, "name": name, "version": "1.0"}
            archive.writestr(zipfile.ZipInfo("manifest.json"), json.dumps(manifest))
        return packed.getvalue()

    def _stored(self) -> str:
        """The id of an extension that the worker has."""
        response = self._api.session.post(
            f"{self._api.base}/extensions",
            data=self._packed("standing"),
            headers={**self._api.headers, "Content-Type": "application/octet-stream"},
            timeout=30,
        )
        response.raise_for_status()
        return str(response.json()["data"]["id"])

    def _create_extension(self, call: Call) -> None:
        if call.works:  # the document cannot say what a package is
            call.case.body = self._packed(f"made {call.chance.getrandbits(32)}")

    def _extension(self, call: Call) -> None:
        if not call.linked and call.odds(0.7):
            call.aim(extensionId=self._stored())

    def _launch_browser(self, call: Call) -> None:
        if call.identity.name == "organization env" or call.odds(0.6):
            call.case.query = {"env": self._environment(call)}
        elif "profileId" in call.case.query and call.odds(0.8):
            call.ask(profileId=self._seed["profileId"])
        self._upgrade(call)

    def _environment(self, call: Call) -> str:
        content: dict[str, Any] = {"profileId": self._seed["profileId"]}
        if call.identity.name == "organization env":
            content["SVC_KEY"] = self._seed["organizationKey"]
        text = json.dumps(content)
        return text if call.odds(0.5) else base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def _connect(self, call: Call) -> None:
        parameters = call.case.path_parameters or {}
        if "browserGuid" in parameters and call.odds(0.7):
            call.aim(browserGuid=self._standing.guid)
        if "targetId" in parameters and call.odds(0.7):
            call.aim(targetId=self._target())
        self._upgrade(call)

    @staticmethod
    def _upgrade(call: Call) -> None:
        if call.odds(0.7):
            nonce = base64.b64encode(call.chance.randbytes(16)).decode()
            call.case.headers.update(
                {
                    "Connection": "Upgrade",
                    "Upgrade": "websocket",
                    "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": nonce,
                }
            )

    def _send_mcp(self, call: Call) -> None:
        self._without_mcp_session(call)
        if isinstance(call.case.body, dict) and call.odds(0.8):
            call.case.body = _INITIALIZE

    @staticmethod
    def _without_mcp_session(call: Call) -> None:
        """A stream of a session would not end."""
        if call.odds(0.7):
            call.case.headers.pop("Mcp-Session-Id", None)

    def _end_mcp(self, call: Call) -> None:
        if not call.works or not call.odds(0.7):
            return
        credential = call.identity.headers
        response = self._api.session.post(f"{self._api.base}/mcp", json=_INITIALIZE, headers=credential, timeout=30)
        call.case.headers["Mcp-Session-Id"] = response.headers.get("Mcp-Session-Id", "none")

    def _session(self, call: Call) -> None:
        if not call.linked and call.odds(0.9):
            call.aim(sessionId=(self._standing if call.odds(0.5) else self._ended).id)

    def _kill(self, call: Call) -> None:
        if not call.linked:
            call.aim(sessionId=(self._launch() if call.works and call.odds(0.1) else self._ended).id)

    def _close(self, call: Call) -> None:
        if not call.works or call.linked:
            return
        if call.odds(0.5):
            call.fill(targetId=self._target("new"))
        elif call.identity.name == "worker key":
            call.aim(launchId=(self._launch() if call.odds(0.2) else self._ended).launch)

    def _navigate(self, call: Call) -> None:
        if not isinstance(call.case.body, dict):
            return
        values: dict[str, object] = {}
        if call.odds(0.7) and "url" in call.case.body:
            values["url"] = "about:blank"
        # What never answers must not hold the run up.
        if isinstance(call.case.body.get("timeoutMs", 0), int) and call.case.body.get("timeoutMs", 30000) > 2000:
            values["timeoutMs"] = 2000
        if "targetId" in call.case.body and call.odds(0.8):
            values["targetId"] = self._target()
        if call.works:
            call.fill(**values)

    def _handover(self, method: str, body: dict[str, Any] | None = None) -> None:
        """Begins or cancels a handover, unless there is one already or none."""
        try:
            self._api.call(method, f"/browsers/{self._standing.launch}/handover", body)
        except Refused as refusal:
            if refusal.status != requests.codes.conflict:
                raise

    def _start_handover(self, call: Call) -> None:
        if call.odds(0.8):
            self._handover("DELETE")

    def _open_handover(self, call: Call) -> None:
        if call.odds(0.6):
            self._handover("POST", {"reason": "Solve the captcha."})

    def _get_handover(self, call: Call) -> None:
        self._open_handover(call)
        # A valid wait gets short: a minute is as long as the timeout of a request. It is a number or the text of one.
        wait = str(call.case.query.get("waitSeconds", ""))
        if re.fullmatch(r"[0-9]{1,2}", wait) and 1 < int(wait) <= _MAX_HANDOVER_WAIT:
            call.ask(waitSeconds="1")

    def _page_query(self, call: Call) -> None:
        if "targetId" in call.case.query and call.works and call.odds(0.8):
            call.ask(targetId=self._target())

    def _tab(self, call: Call) -> None:
        if call.works and call.odds(0.8):
            closing = operation_id(call.case) in ("closeTarget", "closeRootTarget")
            call.aim(targetId=self._target("new" if closing else "list"))

    def _new_file(self) -> str:
        """The id of a file of the standing browser."""
        made = self._api.session.put(
            f"{self._api.base}/browsers/{self._standing.launch}/files/file.txt",
            data=b"content",
            headers=self._api.headers,
            timeout=30,
        )
        return str(made.json()["data"]["id"]) if made.ok else "gone"

    @staticmethod
    def _create_file(call: Call) -> None:
        parameters = dict(call.case.path_parameters or {})
        if call.works and _FILE_NAME.fullmatch(str(parameters.get("file", ""))):
            call.case.path_parameters = parameters | {"file": "file.txt"}

    def _file(self, call: Call) -> None:
        if call.works and not call.linked and call.odds(0.6):
            call.aim(file=self._new_file())
            call.case.query = {name: value for name, value in call.case.query.items() if name != "name"}

    def _session_file(self, call: Call) -> None:
        if call.linked:
            return
        if call.odds(0.9):
            call.aim(sessionId=self._standing.id)
        if "file" in (call.case.path_parameters or {}):
            self._file(call)

    def _record(self) -> str:
        """The id of an ended session with a recording."""
        settings = {"record": ["video", "events", "frames"], "startUrls": ["about:blank"]}
        body = {"profileId": self._seed["profileId"], "browser": settings}
        recorded = str(self._api.call("POST", "/sessions/profile", body)["id"])
        time.sleep(_PICTURE_TIME)
        self._api.call("DELETE", f"/sessions/{recorded}")
        end = time.monotonic() + _ROOM_TIME
        while time.monotonic() < end:
            if self._api.call("GET", f"/sessions/{recorded}")["recording"]["state"] != "recording":
                break
            time.sleep(0.2)
        return recorded

    def _open_recording(self) -> str:
        """The cookie that replaces a recording ticket."""
        made = self._api.call("POST", f"/sessions/{self._recorded}/recording/ticket")
        address = urlparse(str(made["url"]))
        path = f"/sessions/{self._recorded}/recording/player?{address.query}"
        opened = self._api.session.get(self._api.base + path, allow_redirects=False, timeout=30)
        token = opened.cookies["svc_recording"]
        self._api.session.cookies.clear()
        return str(token)

    def _recording(self, call: Call) -> None:
        only = "recordingCookie" in call.identity.opens  # which is valid for this recording only
        if not call.linked and (only or call.odds(0.9)):
            call.aim(sessionId=self._recorded)

    def _drive(self) -> str:
        """The id of a new WebDriver session."""
        made = self._api.session.post(
            f"{self._api.base}/wd/hub/session",
            json={"capabilities": {"alwaysMatch": {"webSocketUrl": True}}},
            headers=self._api.headers,
            timeout=60,
        )
        return str(made.json()["value"]["sessionId"]) if made.ok else "gone"  # the worker is full for a moment

    def _create_driven(self, call: Call) -> None:
        if isinstance(call.case.body, dict) and call.works and call.odds(0.3):
            call.case.body = {"capabilities": {"alwaysMatch": {"browserName": "chrome"}}}

    def _command(self, call: Call) -> None:
        name = operation_id(call.case)
        if not call.works or not call.odds(0.5):
            return
        call.aim(webDriverSessionId=self._drive())
        if name in _COMMANDS:
            call.aim(webDriverCommand=_COMMANDS[name])
            if isinstance(call.case.body, dict):
                call.case.body = {"url": "about:blank"}
        else:
            self._upgrade(call)

    def _end_driven(self, call: Call) -> None:
        if call.works and call.odds(0.3):
            call.aim(webDriverSessionId=self._drive())

    # Afterwards

    def settle(self, case: Any, response: Any) -> None:
        operation, status = operation_id(case), response.status_code
        meta = case.meta
        if operation == "drainWorker" and status == 200:
            self._api.call("DELETE", "/fleet/drain")
        elif operation in ("createTarget", "createRootTarget") and status == 200:
            self._try("GET", f"/browsers/{self._standing.launch}/json/close/{response.json()['id']}")
        elif operation == "sendMcpMessage" and "mcp-session-id" in response.headers:
            sent = response.request.headers
            headers = {name: sent[name] for name in ("X-API-Key", "Authorization") if name in sent}
            headers["Mcp-Session-Id"] = response.headers["mcp-session-id"][0]
            self._api.session.delete(f"{self._api.base}/mcp", headers=headers, timeout=30)
        elif "WebDriver" in operation and status in (101, 200):
            self._sweep()
        elif operation in _LAUNCHES and status in (101, 201):
            # In a scenario what was launched is still asked for; there the sweep comes with the next launch.
            keep = (
                response.json()["data"]["id"] if status == 201 and meta and meta.phase.name.value == "stateful" else ""
            )
            self._sweep(keep)

    def _sweep(self, keep: str = "") -> None:
        """Ends all browsers but the standing one."""
        for session in self._api.call("GET", "/sessions", status="running", limit=100)["items"]:
            if session["id"] not in (self._standing.id, keep):
                self._try("DELETE", f"/sessions/{session['id']}")

    def _try(self, method: str, path: str) -> None:
        self._api.session.request(method, self._api.base + path, headers=self._api.headers, timeout=60)

    def finish(self) -> None:
        self._sweep()
        self._end(self._standing)
