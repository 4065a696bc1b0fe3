"""The findings of schemathesis that do not fail the stage, and the operations that never succeed in it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("allowed_findings.toml")


@dataclass
class AllowedFinding:
    """An entry of the file. It allows a finding that matches all of its fields."""

    api: str
    check: str
    reason: str
    operations: list[str] = field(default_factory=list)  # all operations if empty
    status: int | None = None
    body: str = ""  # a regular expression that is searched in the response body
    message: str = ""  # a regular expression that is searched in the message of the check
    matched: int = 0  # the number of findings

    def matches(self, operation: str, check: str, message: str, status: int, body: str) -> bool:
        return (
            check == self.check
            and (not self.operations or operation in self.operations)
            and (self.status is None or status == self.status)
            and re.search(self.body, body) is not None
            and re.search(self.message, message) is not None
        )

    def __str__(self) -> str:
        operations = ", ".join(self.operations) or "all operations"
        conditions = "".join(f" {text}" for text in (self.status or "", self.body, self.message) if text)
        return f"{self.api}: {self.check} of {operations}{conditions and ' with' + conditions}: {self.reason}"


def read(api: str) -> tuple[list[AllowedFinding], dict[str, str]]:
    """The allowed findings of an API, and the reasons by operation that never succeeds."""
    document: dict[str, Any] = tomllib.loads(FILE.read_text())
    allowed = [AllowedFinding(**entry) for entry in document.get("allowed", []) if entry["api"] == api]
    return allowed, document.get("never_successful", {}).get(api, {})
