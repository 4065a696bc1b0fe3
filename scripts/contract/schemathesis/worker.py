"""The fixture of the worker. Requests share one browser; requests that would end it get their own browser."""

from __future__ import annotations

import base64
import io
import json
import re
import time
import uuid
import zipfile
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlparse

import requests

from api_client import ApiClient, ApiError
from fixture import MAX_LAUNCH_WAIT, Fixture, GeneratedRequest, operation_id
from identities import Identity, api_key, bearer_token, metrics_token, session_cookie

# Cookies count for changes only in requests of pages of the worker.
_OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
_WEBDRIVER_COMMANDS = {"getWebDriverState": "title", "sendWebDriverCommand": "url", "deleteWebDriverState": "cookie"}
_LAUNCHES = {"launchProfile", "launchBrowser", "launchPlaywright"}
_RENDERS = ("renderScreenshot", "renderPdf", "renderContent")
_PAGES = {"openDevtools", "openBrowser", "viewBrowser"}  # each accepts a token in the URL only once
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
_LIMITS = ("idleTimeoutSeconds", "maxDurationSeconds", "connectTimeoutSeconds")
_LONG_LIMIT, _MAX_LIMIT = 86_400, 604_800  # seconds
_STATE_TIMEOUT = 20.0  # seconds until the worker has a free slot, or has completed a recording
_MAX_HANDOVER_WAIT = 60  # seconds
_RECORDING_PARTS = ("video", "events", "frames", "har", "trace")
_RECORDING_TIME = 2  # seconds; the browser has drawn a frame by then


_FILE_NAME = re.compile(r"[^/\\\x00-\x1f\x7f-\x9f]{1,255}")


def _is_extension_id(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


class Browser:
    """A session, with the ids and tokens of its browser."""

    def __init__(self, session: dict[str, Any]) -> None:
        url = urlparse(session["webSocketDebuggerUrl"])
        self.session_id: str = session["id"]
        self.launch_id: str = session["launchId"]
        self.guid = url.path.rsplit("/", 1)[-1]
        self.control_token = parse_qs(url.query)["ct"][0]
        self.view_ticket = ""


class WorkerFixture(Fixture):
    """Prepares the requests to the worker."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__()
        self._seed = seed
        self._client = ApiClient.new(seed["workerUrl"]).with_key(seed["workerKey"])
        self._console_token = self._sign_in_to_console()
        self._shared_browser = self._launch_with_view_ticket()
        self._recorded_session = self._record_session()
        self._recording_token = self._open_recording()
        self._ended_browser = self._end(self._launch())
        self.preparations = {
            "listAndroidModels": self._prepare_android_models,
            "launchProfile": self._prepare_profile_launch,
            "launchBrowser": self._prepare_browser_launch,
            "launchPlaywright": self._prepare_browser_launch,
            "createExtension": self._prepare_extension_upload,
            "getExtension": self._prepare_extension,
            "deleteExtension": self._prepare_extension,
            "getBrowserSession": self._prepare_session,
            "getSessionNetwork": self._prepare_session,
            "updateBrowserSession": self._prepare_update,
            "updateBrowserLifetime": self._extend_limits,
            "killBrowserSession": self._prepare_kill,
            "closeBrowser": self._prepare_close,
            "navigatePage": self._prepare_navigation,
            "startHandover": self._ensure_no_handover,
            "cancelHandover": self._ensure_handover,
            "completeHandover": self._ensure_handover,
            "getHandover": self._prepare_handover,
            "captureScreenshot": self._prepare_capture,
            "capturePdf": self._prepare_capture,
            "connectBrowser": self._prepare_connection,
            "connectPage": self._prepare_connection,
            "connectRootBrowser": self._prepare_connection,
            "connectRootPage": self._prepare_connection,
            "connectDesktop": self._prepare_connection,
            "sendMcpMessage": self._prepare_mcp_message,
            "openMcpStream": self._remove_mcp_session,
            "endMcpSession": self._prepare_mcp_end,
            "activateTarget": self._prepare_target,
            "activateRootTarget": self._prepare_target,
            "closeTarget": self._prepare_target,
            "closeRootTarget": self._prepare_target,
            "createWebDriverSession": self._prepare_webdriver_session,
            "connectWebDriver": self._prepare_webdriver_command,
            "endWebDriverSession": self._prepare_webdriver_end,
            "createFile": self._prepare_file_upload,
            "downloadFile": self._prepare_file,
            "deleteFile": self._prepare_file,
            "listSessionFiles": self._prepare_session_file,
            "downloadSessionFile": self._prepare_session_file,
            "deleteSessionFile": self._prepare_session_file,
            "downloadSessionFiles": self._prepare_session_file,
            "downloadRecording": self._prepare_recording,
            "getRecordingEvents": self._prepare_recording,
            "downloadRecordingFrames": self._prepare_recording,
            "getRecordingHar": self._prepare_recording,
            "downloadRecordingTrace": self._prepare_recording,
            "getRecordingScript": self._prepare_recording,
            "openRecordingPlayer": self._prepare_recording,
            "openTraceViewer": self._prepare_recording,
            "getTraceViewerFile": self._prepare_viewer_file,
            "createRecordingTicket": self._prepare_recording,
            "startRecording": self._prepare_recording_start,
            "endRecording": self._prepare_recording_stop,
            **dict.fromkeys(_WEBDRIVER_COMMANDS, self._prepare_webdriver_command),
            **dict.fromkeys(_RENDERS, self._prepare_render),
        }

    def identities(self) -> list[Identity]:
        seed, browser = self._seed, self._shared_browser
        launch = browser.launch_id.replace("-", "")  # as in the names of the cookies of a launch
        organization_key = seed["organizationKey"]
        return [
            Identity("anonymous"),
            api_key("wrong key", "wrk_wrong"),
            api_key("worker key", seed["workerKey"], "workerKey"),
            Identity(
                "console cookie",
                frozenset({"consoleCookie"}),
                headers=_OWN_PAGE,
                cookies={"svc_console": self._console_token},
            ),
            Identity("wrong console cookie", cookies={"svc_console": "wrong"}),
            Identity("console token as token", headers={"X-Svc-Token": self._console_token}),
            Identity(
                "recording cookie",
                frozenset({"recordingCookie"}),
                cookies={"svc_recording": self._recording_token},
            ),
            Identity("recording cookie as console cookie", cookies={"svc_console": self._recording_token}),
            api_key("organization key", organization_key, "organizationKey"),
            metrics_token(seed["metricsToken"]),
            Identity(
                "organization bearer",
                frozenset({"organizationBearer"}),
                headers={"Authorization": f"Bearer {organization_key}"},
            ),
            Identity(
                "WebDriver basic",
                frozenset({"webDriverBasic"}),
                headers={"Authorization": "Basic " + base64.b64encode(f"user:{organization_key}".encode()).decode()},
            ),
            Identity("organization env", frozenset({"organizationEnv"})),  # /launch gets the key in the parameter env
            api_key("revoked key", seed["revokedKey"]),
            bearer_token("owner", seed["owner"]["token"], None),
            session_cookie("owner's cookie", seed["owner"]["token"], None),
            Identity("wrong token", headers={"X-Svc-Token": "wrong"}),
            Identity("control token", frozenset({"controlToken"}), headers={"X-Svc-Token": browser.control_token}),
            Identity(
                "control bearer",
                frozenset({"controlBearer"}),
                headers={"Authorization": f"Bearer {browser.control_token}"},
            ),
            Identity(
                "control basic",
                frozenset({"controlBasic"}),
                headers={
                    "Authorization": "Basic " + base64.b64encode(f"user:{browser.control_token}".encode()).decode()
                },
            ),
            Identity(
                "control cookie",
                frozenset({"controlCookie"}),
                headers=_OWN_PAGE,
                cookies={f"svc_ctl_{launch}": browser.control_token},
            ),
            Identity("control query", frozenset({"controlQuery"}), query={"ct": browser.control_token}),
            Identity("view ticket", frozenset({"viewCookie"}), cookies={f"svc_view_{launch}": browser.view_ticket}),
            Identity("view ticket query", frozenset({"viewQuery"}), query={"t": browser.view_ticket}),
            Identity("ticket as token", headers={"X-Svc-Token": browser.view_ticket}),
        ]

    def scenario_identity(self, case: Any) -> Identity:
        preferred = [identity for identity in self.identities() if identity.name in ("worker key", "organization key")]
        return next((identity for identity in preferred if identity.authenticated(case.operation)), preferred[0])

    def choose_identity(self, case: Any, rng: Any) -> Identity:
        self._ensure_shared_browser()
        return super().choose_identity(case, rng)

    def prepare_common(self, request: GeneratedRequest) -> None:
        if request.in_scenario:
            return
        if request.random_bool(0.9):
            request.set_path_parameters(launchId=self._shared_browser.launch_id)
        # Only an identity sets tokens in the query. Generated tokens would be sent in addition to a valid credential.
        if request.identity.authenticated(request.case.operation) and not request.identity.query:
            request.case.query = {name: value for name, value in request.case.query.items() if name not in ("ct", "t")}
        if request.identity.query and operation_id(request.case) in _PAGES and request.random_bool(0.7):
            request.identity = self._with_new_tokens(request.identity)

    def _with_new_tokens(self, identity: Identity) -> Identity:
        """The identity with tokens that have not opened a page."""
        created = self._client.call("POST", f"/browsers/{self._shared_browser.launch_id}/view-ticket")
        tokens = {"ct": created["controlToken"], "t": created["viewTicket"]}
        return replace(identity, query={name: tokens[name] for name in identity.query})

    def _sign_in_to_console(self) -> str:
        """The token of a new console cookie."""
        url = f"{self._client.base}/console/session"
        response = self._client.session.post(url, headers=self._client.headers, timeout=30)
        response.raise_for_status()
        token = response.cookies["svc_console"]
        self._client.session.cookies.clear()  # later requests must have only the worker key
        return str(token)

    # Browsers

    def _launch(self) -> Browser:
        """Launches a browser. Waits while the worker is full, because earlier browsers may still be ending."""
        deadline = time.monotonic() + _STATE_TIMEOUT
        while True:
            try:
                return Browser(self._client.call("POST", "/sessions/profile", {"profileId": self._seed["profileId"]}))
            except ApiError as error:
                if error.status != requests.codes.service_unavailable or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _launch_with_view_ticket(self) -> Browser:
        browser = self._launch()
        created = self._client.call("POST", f"/browsers/{browser.launch_id}/view-ticket")
        browser.view_ticket = created["viewTicket"]
        return browser

    def _end(self, browser: Browser) -> Browser:
        self._client.call("DELETE", f"/sessions/{browser.session_id}")
        return browser

    def _ensure_shared_browser(self) -> None:
        """Launches the shared browser again if a request has ended it."""
        if self._client.call("GET", f"/sessions/{self._shared_browser.session_id}")["status"] != "running":
            self._shared_browser = self._launch_with_view_ticket()

    def _target_id(self, path: str = "list") -> str:
        """The id of a page of the shared browser; of a new page if path is "new"."""
        method = "PUT" if path == "new" else "GET"
        url = f"{self._client.base}/browsers/{self._shared_browser.launch_id}/json/{path}"
        response = self._client.session.request(method, url, headers=self._client.headers, timeout=30)
        if not response.ok:  # the browser is ending; the next request gets another one
            return "gone"
        targets = response.json()
        pages = [targets] if path == "new" else [target for target in targets if target["type"] == "page"]
        return str(pages[0]["id"]) if pages else self._target_id("new")

    # Preparations

    def _prepare_android_models(self, request: GeneratedRequest) -> None:
        if isinstance(request.case.query.get("browserVersion"), int) and request.random_bool(0.8):
            request.set_query_parameters(browserVersion=self._seed["browserVersion"])

    def _prepare_profile_launch(self, request: GeneratedRequest) -> None:
        request.shorten_wait(MAX_LAUNCH_WAIT)
        body = request.case.body
        if not isinstance(body, dict):
            return
        # A browser takes half a second of processor time. So most requests keep a profile or version that does not
        # exist, and start no browser.
        if "profileId" in body and request.random_bool(0.3):
            request.set_body_fields(profileId=self._seed["profileId"])
        # A browser refuses most generated states only after its start, for example a cookie without a domain or an
        # unknown origin.
        settings = body.get("browser")
        if isinstance(settings, dict) and isinstance(settings.get("state"), dict):
            state = {"cookies": [{"name": "a", "value": "b", "domain": "example.com", "path": "/"}], "origins": []}
            request.set_body_fields(browser={**settings, "state": state})
        settings = request.case.body.get("browser")
        if isinstance(settings, dict) and isinstance(settings.get("replay"), dict) and request.random_bool(0.8):
            request.set_body_fields(browser={**settings, "replay": {**settings["replay"], "har": self._recorded_session}})
        spec = body.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("browserVersion"), int) and request.random_bool(0.3):
            request.set_body_fields(spec={**spec, "browserVersion": self._seed["browserVersion"]})

        self._set_stored_extensions(request)

    def _prepare_render(self, request: GeneratedRequest) -> None:
        self._prepare_profile_launch(request)
        self._prepare_navigation(request)
        body = request.case.body
        # As for launches, most requests have a profile that does not exist, and start no browser.
        if isinstance(body, dict) and not {"profileId", "spec"} & body.keys() and request.random_bool(0.8):
            request.set_body_fields(profileId=str(uuid.UUID(int=request.rng.getrandbits(128), version=4)))
        # A generated token would be sent in addition to a valid key.
        if request.authorized and request.random_bool(0.9):
            request.case.query = {name: value for name, value in request.case.query.items() if name != "token"}

    def _set_stored_extensions(self, request: GeneratedRequest) -> None:
        """Replaces a valid list of generated extension ids by an extension that the worker has."""
        settings = request.case.body.get("browser")
        ids = settings.get("extensions") if isinstance(settings, dict) else None
        if isinstance(ids, list) and all(_is_extension_id(value) for value in ids) and len(ids) <= _MAX_EXTENSIONS:
            request.set_body_fields(browser={**settings, "extensions": [self._store_extension()][: len(ids)]})

    @staticmethod
    def _extension_package(name: str) -> bytes:
        """The ZIP archive of an extension."""
        package = io.BytesIO()
        with zipfile.ZipFile(package, "w") as archive:
            manifest = {"manifest_version": 3, "name": name, "version": "1.0"}
            archive.writestr(zipfile.ZipInfo("manifest.json"), json.dumps(manifest))
        return package.getvalue()

    def _store_extension(self) -> str:
        """Uploads an extension and returns its id. A second upload of the same extension changes nothing."""
        response = self._client.session.post(
            f"{self._client.base}/extensions",
            data=self._extension_package("shared"),
            headers={**self._client.headers, "Content-Type": "application/octet-stream"},
            timeout=30,
        )
        response.raise_for_status()
        return str(response.json()["data"]["id"])

    def _prepare_extension_upload(self, request: GeneratedRequest) -> None:
        if request.authorized:  # the document cannot describe the contents of a package
            request.case.body = self._extension_package(f"generated {request.rng.getrandbits(32)}")

    def _prepare_extension(self, request: GeneratedRequest) -> None:
        if not request.in_scenario and request.random_bool(0.7):
            request.set_path_parameters(extensionId=self._store_extension())

    def _prepare_browser_launch(self, request: GeneratedRequest) -> None:
        request.shorten_wait(MAX_LAUNCH_WAIT)
        if request.identity.name == "organization env" or request.random_bool(0.6):
            request.case.query = {"env": self._environment(request)}
        elif "profileId" in request.case.query and request.random_bool(0.8):
            request.set_query_parameters(profileId=self._seed["profileId"])
        self._set_upgrade_headers(request)

    def _environment(self, request: GeneratedRequest) -> str:
        content: dict[str, Any] = {"profileId": self._seed["profileId"]}
        if request.identity.name == "organization env":
            content["SVC_KEY"] = self._seed["organizationKey"]
        text = json.dumps(content)
        return text if request.random_bool(0.5) else base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def _prepare_connection(self, request: GeneratedRequest) -> None:
        parameters = request.case.path_parameters or {}
        if "browserGuid" in parameters and request.random_bool(0.7):
            request.set_path_parameters(browserGuid=self._shared_browser.guid)
        if "targetId" in parameters and request.random_bool(0.7):
            request.set_path_parameters(targetId=self._target_id())
        self._set_upgrade_headers(request)

    @staticmethod
    def _set_upgrade_headers(request: GeneratedRequest) -> None:
        if request.random_bool(0.7):
            nonce = base64.b64encode(request.rng.randbytes(16)).decode()
            request.case.headers.update(
                {
                    "Connection": "Upgrade",
                    "Upgrade": "websocket",
                    "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": nonce,
                }
            )

    def _prepare_mcp_message(self, request: GeneratedRequest) -> None:
        self._remove_mcp_session(request)
        if isinstance(request.case.body, dict) and request.random_bool(0.8):
            request.case.body = _INITIALIZE

    @staticmethod
    def _remove_mcp_session(request: GeneratedRequest) -> None:
        """Removes the session from most requests. The stream of a session would not end."""
        if request.random_bool(0.7):
            request.case.headers.pop("Mcp-Session-Id", None)

    def _prepare_mcp_end(self, request: GeneratedRequest) -> None:
        if not request.authorized or not request.random_bool(0.7):
            return
        headers = request.identity.headers
        response = self._client.session.post(f"{self._client.base}/mcp", json=_INITIALIZE, headers=headers, timeout=30)
        request.case.headers["Mcp-Session-Id"] = response.headers.get("Mcp-Session-Id", "none")

    def _prepare_session(self, request: GeneratedRequest) -> None:
        if not request.in_scenario and request.random_bool(0.9):
            browser = self._shared_browser if request.random_bool(0.5) else self._ended_browser
            request.set_path_parameters(sessionId=browser.session_id)

    def _prepare_update(self, request: GeneratedRequest) -> None:
        self._prepare_session(request)
        self._extend_limits(request)

    @staticmethod
    def _extend_limits(request: GeneratedRequest) -> None:
        """Extends short valid limits: they would end the shared browser, or it has already reached them."""
        body = request.case.body
        if isinstance(body, dict) and request.authorized:
            limits = {name: body[name] for name in _LIMITS if type(body.get(name)) is int}
            short = {name: value for name, value in limits.items() if 0 < value < _LONG_LIMIT}
            request.set_body_fields(**{name: min(value + _LONG_LIMIT, _MAX_LIMIT) for name, value in short.items()})

    def _prepare_kill(self, request: GeneratedRequest) -> None:
        if not request.in_scenario:
            browser = self._launch() if request.authorized and request.random_bool(0.1) else self._ended_browser
            request.set_path_parameters(sessionId=browser.session_id)

    def _prepare_close(self, request: GeneratedRequest) -> None:
        if not request.authorized or request.in_scenario:
            return
        if request.random_bool(0.5):
            request.set_body_fields(targetId=self._target_id("new"))
        elif request.identity.name == "worker key":
            browser = self._launch() if request.random_bool(0.2) else self._ended_browser
            request.set_path_parameters(launchId=browser.launch_id)

    def _prepare_navigation(self, request: GeneratedRequest) -> None:
        body = request.case.body
        if not isinstance(body, dict):
            return
        values: dict[str, object] = {}
        if request.random_bool(0.7) and "url" in body:
            values["url"] = "about:blank"
        # A page that never responds must not delay the run.
        if isinstance(body.get("timeoutMs", 0), int) and body.get("timeoutMs", 30000) > 2000:
            values["timeoutMs"] = 2000
        if "targetId" in body and request.random_bool(0.8):
            values["targetId"] = self._target_id()
        if request.authorized:
            request.set_body_fields(**values)

    def _request_handover(self, method: str, body: dict[str, Any] | None = None) -> None:
        """Starts or cancels a handover. A conflict means that there is one already, or none."""
        try:
            self._client.call(method, f"/browsers/{self._shared_browser.launch_id}/handover", body)
        except ApiError as error:
            if error.status != requests.codes.conflict:
                raise

    def _ensure_no_handover(self, request: GeneratedRequest) -> None:
        if request.random_bool(0.8):
            self._request_handover("DELETE")

    def _ensure_handover(self, request: GeneratedRequest) -> None:
        if request.random_bool(0.6):
            self._request_handover("POST", {"reason": "Solve the captcha."})

    def _prepare_handover(self, request: GeneratedRequest) -> None:
        self._ensure_handover(request)
        request.shorten_wait(_MAX_HANDOVER_WAIT)

    def _prepare_recording_start(self, request: GeneratedRequest) -> None:
        """Records only events. A video would load the machine until the browser ends."""
        body = request.case.body
        parts = body.get("record") if isinstance(body, dict) and len(body) == 1 else None
        valid = isinstance(parts, list) and 0 < len(parts) <= len(_RECORDING_PARTS)
        if valid and all(part in _RECORDING_PARTS for part in parts):
            request.set_body_fields(record=["events"])

    def _prepare_recording_stop(self, request: GeneratedRequest) -> None:
        if not request.random_bool(0.6):
            return
        try:
            path = f"/browsers/{self._shared_browser.launch_id}/recording"
            self._client.call("POST", path, {"record": ["events"]})
        except ApiError as error:
            if error.status != requests.codes.conflict:
                raise

    def _prepare_capture(self, request: GeneratedRequest) -> None:
        if "targetId" in request.case.query and request.authorized and request.random_bool(0.8):
            request.set_query_parameters(targetId=self._target_id())

    def _prepare_target(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.8):
            closes = operation_id(request.case) in ("closeTarget", "closeRootTarget")
            request.set_path_parameters(targetId=self._target_id("new" if closes else "list"))

    def _create_file(self) -> str:
        """Creates a file of the shared browser and returns its id."""
        response = self._client.session.put(
            f"{self._client.base}/browsers/{self._shared_browser.launch_id}/files/file.txt",
            data=b"content",
            headers=self._client.headers,
            timeout=30,
        )
        return str(response.json()["data"]["id"]) if response.ok else "gone"

    @staticmethod
    def _prepare_file_upload(request: GeneratedRequest) -> None:
        parameters = dict(request.case.path_parameters or {})
        if request.authorized and _FILE_NAME.fullmatch(str(parameters.get("file", ""))):
            request.case.path_parameters = parameters | {"file": "file.txt"}

    def _prepare_file(self, request: GeneratedRequest) -> None:
        if request.authorized and not request.in_scenario and request.random_bool(0.6):
            request.set_path_parameters(file=self._create_file())
            request.case.query = {name: value for name, value in request.case.query.items() if name != "name"}

    def _prepare_session_file(self, request: GeneratedRequest) -> None:
        if request.in_scenario:
            return
        if request.random_bool(0.9):
            request.set_path_parameters(sessionId=self._shared_browser.session_id)
        if "file" in (request.case.path_parameters or {}):
            self._prepare_file(request)

    def _record_session(self) -> str:
        """Creates an ended session with a complete recording and returns its id."""
        settings = {"record": list(_RECORDING_PARTS), "startUrls": ["about:blank"]}
        body = {"profileId": self._seed["profileId"], "browser": settings}
        session_id = str(self._client.call("POST", "/sessions/profile", body)["id"])
        time.sleep(_RECORDING_TIME)
        self._client.call("DELETE", f"/sessions/{session_id}")
        deadline = time.monotonic() + _STATE_TIMEOUT
        while time.monotonic() < deadline:
            if self._client.call("GET", f"/sessions/{session_id}")["recording"]["state"] != "recording":
                break
            time.sleep(0.2)
        return session_id

    def _open_recording(self) -> str:
        """Exchanges a recording ticket for the recording cookie, and returns the value of the cookie."""
        created = self._client.call("POST", f"/sessions/{self._recorded_session}/recording/ticket")
        url = urlparse(str(created["url"]))
        path = f"/sessions/{self._recorded_session}/recording/player?{url.query}"
        response = self._client.session.get(self._client.base + path, allow_redirects=False, timeout=30)
        token = response.cookies["svc_recording"]
        self._client.session.cookies.clear()
        return str(token)

    def _prepare_recording(self, request: GeneratedRequest) -> None:
        has_cookie = "recordingCookie" in request.identity.schemes  # it is valid for this recording only
        if not request.in_scenario and (has_cookie or request.random_bool(0.9)):
            request.set_path_parameters(sessionId=self._recorded_session)

    def _prepare_viewer_file(self, request: GeneratedRequest) -> None:
        if request.random_bool(0.5):
            request.set_path_parameters(file="index.html")

    def _create_webdriver_session(self) -> str:
        """Creates a WebDriver session and returns its id."""
        response = self._client.session.post(
            f"{self._client.base}/wd/hub/session",
            json={"capabilities": {"alwaysMatch": {"webSocketUrl": True}}},
            headers=self._client.headers,
            timeout=60,
        )
        return str(response.json()["value"]["sessionId"]) if response.ok else "gone"  # the worker can be full

    def _prepare_webdriver_session(self, request: GeneratedRequest) -> None:
        if isinstance(request.case.body, dict) and request.authorized and request.random_bool(0.3):
            request.case.body = {"capabilities": {"alwaysMatch": {"browserName": "chrome"}}}

    def _prepare_webdriver_command(self, request: GeneratedRequest) -> None:
        name = operation_id(request.case)
        if not request.authorized or not request.random_bool(0.5):
            return
        request.set_path_parameters(webDriverSessionId=self._create_webdriver_session())
        if name in _WEBDRIVER_COMMANDS:
            request.set_path_parameters(webDriverCommand=_WEBDRIVER_COMMANDS[name])
            if isinstance(request.case.body, dict):
                request.case.body = {"url": "about:blank"}
        else:
            self._set_upgrade_headers(request)

    def _prepare_webdriver_end(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.3):
            request.set_path_parameters(webDriverSessionId=self._create_webdriver_session())

    # After a request

    def restore(self, case: Any, response: Any) -> None:
        operation, status = operation_id(case), response.status_code
        meta = case.meta
        if operation == "drainWorker" and status == 200:
            self._client.call("DELETE", "/fleet/drain")
        elif operation in ("createTarget", "createRootTarget") and status == 200:
            self._try("GET", f"/browsers/{self._shared_browser.launch_id}/json/close/{response.json()['id']}")
        elif operation == "sendMcpMessage" and "mcp-session-id" in response.headers:
            sent = response.request.headers
            headers = {name: sent[name] for name in ("X-API-Key", "Authorization") if name in sent}
            headers["Mcp-Session-Id"] = response.headers["mcp-session-id"][0]
            self._client.session.delete(f"{self._client.base}/mcp", headers=headers, timeout=30)
        elif "WebDriver" in operation and status in (101, 200):
            self._end_other_browsers()
        elif operation in _LAUNCHES and status in (101, 201):
            # The next steps of a scenario use its browser. The next launch ends it.
            in_scenario = status == 201 and meta and meta.phase.name.value == "stateful"
            self._end_other_browsers(keep=response.json()["data"]["id"] if in_scenario else "")

    def _end_other_browsers(self, keep: str = "") -> None:
        """Ends all browsers except the shared browser and the one of the session `keep`."""
        for session in self._client.call("GET", "/sessions", status="running", limit=100)["items"]:
            if session["id"] not in (self._shared_browser.session_id, keep):
                self._try("DELETE", f"/sessions/{session['id']}")

    def _try(self, method: str, path: str) -> None:
        """Sends a request and ignores an error response."""
        self._client.session.request(method, self._client.base + path, headers=self._client.headers, timeout=60)

    def clean_up(self) -> None:
        self._end_other_browsers()
        self._end(self._shared_browser)
