"""What happened, for the table at the end."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


class Tally:
    """Counts requests by operation, status and credential."""

    def __init__(self) -> None:
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)
        self.identities: dict[str, Counter[str]] = defaultdict(Counter)
        self.phases: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, operation: str, status: int, identity: str, phase: str) -> None:
        self.statuses[operation][status] += 1
        self.identities[operation][identity] += 1
        self.phases[operation][phase] += 1

    def write(self, path: Path, **more: Any) -> None:
        path.write_text(
            json.dumps({"statuses": self.statuses, "identities": self.identities, "phases": self.phases, **more})
        )
