"""The numbers for the report at the end of a run."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


class RequestStatistics:
    """Counts requests by operation, and by status, identity and phase."""

    def __init__(self) -> None:
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)
        self.identities: dict[str, Counter[str]] = defaultdict(Counter)
        self.phases: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, operation: str, status: int, identity: str, phase: str) -> None:
        self.statuses[operation][status] += 1
        self.identities[operation][identity] += 1
        self.phases[operation][phase] += 1

    def write(self, path: Path, **values: Any) -> None:
        path.write_text(
            json.dumps({"statuses": self.statuses, "identities": self.identities, "phases": self.phases, **values})
        )
