"""A driver of Selenium for a session that exists."""

from __future__ import annotations

from typing import Any

from selenium.webdriver import ChromeOptions, Remote
from selenium.webdriver.remote.file_detector import LocalFileDetector


class Driver(Remote):
    """A driver that uses a session of WebDriver, and does not create one."""

    def __init__(self, endpoint: str, answer: dict[str, Any], options: ChromeOptions | None = None) -> None:
        self._answer = answer
        super().__init__(endpoint, options=options or ChromeOptions())
        self.file_detector = LocalFileDetector()

    def start_session(self, capabilities: dict[str, Any]) -> None:
        self.session_id, self.caps = self._answer["sessionId"], self._answer["capabilities"]
