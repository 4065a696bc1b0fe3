"""What AsyncSession and Session have in common."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from . import operations
from .errors import SvcError
from .models import SessionInfo

if TYPE_CHECKING:
    from selenium.webdriver import Remote

    from .relay import Relay


def worker_and_key(worker: str | None, key: str | None) -> tuple[str, dict[str, str]]:
    """Returns the URL of a worker, and the headers of requests."""
    worker, key = worker or os.environ.get("SVC_WORKER"), key or os.environ.get("SVC_API_KEY")
    if not worker or not key:
        raise SvcError("Supply worker and key, or set SVC_WORKER and SVC_API_KEY.")
    return worker, {"X-API-Key": key}


def cloud_and_credential(cloud: str | None, key: str | None, token: str | None) -> tuple[str, dict[str, str]]:
    """Returns the URL of a cloud, and the headers of requests."""
    cloud = cloud or os.environ.get("SVC_CLOUD_URL")
    if key is None and token is None:
        token = os.environ.get("SVC_TOKEN")
    if not cloud or (key is None) == (token is None):
        raise SvcError("Supply cloud and exactly one of key or token, or set SVC_CLOUD_URL and SVC_TOKEN.")
    return cloud, {"X-API-Key": key} if key is not None else {"Authorization": f"Bearer {token}"}


class BaseSession:
    def __init__(self, base: str, headers: dict[str, str], info: SessionInfo, driver: dict[str, Any] | None = None) -> None:
        self.info = info
        self._headers, self._driver = headers, driver
        self._root = operations.root(base, info)
        self._browser = f"{self._root}/browsers/{info.launch_id}"
        self._relay: Relay | None = None
        self._resumed = 0

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def cdp_url(self) -> str:
        """The address of the browser on this machine, for any CDP client. Broken connections behind it are resumed."""
        if self._relay is None:
            if not self.info.web_socket_debugger_url:
                raise SvcError("The session has ended.")
            from .relay import Relay  # noqa: PLC0415 - it takes a third of the time of all imports

            path = urlsplit(self.info.web_socket_debugger_url).path
            target = urlunsplit(urlsplit(self._root)._replace(scheme="wss" if self._root.startswith("https:") else "ws", path=path))
            self._relay = Relay(target, self._browser, self._root, self._headers)
        return self._relay.url

    @property
    def resumed(self) -> int:
        """How often a broken connection was resumed."""
        return self._relay.resumed if self._relay else self._resumed

    def selenium(self, options: Any = None) -> Remote:
        """A driver of Selenium, with blocking calls, for this browser, which was launched with webdriver=True."""
        if self._driver is None:
            raise SvcError("The browser has no chromedriver: launch it with webdriver=True.")
        from .selenium import Driver  # noqa: PLC0415

        return Driver(f"{self._root}/wd/hub", self._driver, options)

    def _connect(self, connect: Callable[..., Any], options: dict[str, Any]) -> Any:
        if "is_local" in inspect.signature(connect).parameters:  # paths are passed as such, also of large files
            options.setdefault("is_local", True)
        return connect(self.cdp_url, **options)

    def _close_relay(self) -> None:
        if self._relay:
            self._relay.close()
            self._resumed = self._relay.resumed
            self._relay = None
