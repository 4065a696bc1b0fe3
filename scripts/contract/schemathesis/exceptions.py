"""The findings that are not held against the service, and the operations that never succeed here."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("exceptions.toml")


@dataclass
class Exemption:
    """One listed exception: of these operations, this check, when the answer looks so."""

    surface: str
    check: str
    reason: str
    operations: list[str] = field(default_factory=list)  # all when empty
    status: int | None = None
    answer: str = ""  # a pattern that is found in the answer's body
    finding: str = ""  # a pattern that is found in the message of the check
    uses: int = 0

    def covers(self, operation: str, check: str, message: str, status: int, body: str) -> bool:
        return (
            check == self.check
            and (not self.operations or operation in self.operations)
            and (self.status is None or status == self.status)
            and re.search(self.answer, body) is not None
            and re.search(self.finding, message) is not None
        )

    def __str__(self) -> str:
        of = ", ".join(self.operations) or "all operations"
        when = "".join(f" {text}" for text in (self.status or "", self.answer, self.finding) if text)
        return f"{self.surface}: {self.check} of {of}{when and ' on' + when}: {self.reason}"


def read(surface: str) -> tuple[list[Exemption], dict[str, str]]:
    """The exceptions of a surface, and why operations of it are never answered 2xx."""
    document: dict[str, Any] = tomllib.loads(FILE.read_text())
    exemptions = [Exemption(**entry) for entry in document.get("exception", []) if entry["surface"] == surface]
    return exemptions, document.get("unreached", {}).get(surface, {})
