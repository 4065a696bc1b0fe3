"""Makes requests up from the documents of both surfaces at the same time, and tells what came of it.

Environment: SEED, from the house; CONTRACT_EXAMPLES, how many examples an operation gets at least (300);
CONTRACT_SEED, which makes a run the same again (1, so that a change fails for what it changes); CONTRACT_KEPT, where
logs and tallies go.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import exceptions
from api import read_seed

HERE = Path(__file__).parent
KEPT = Path(os.environ.get("CONTRACT_KEPT") or HERE.parents[2] / "bin" / "contract")
SURFACES = ("cloud", "worker")
OTHERS = 900.0  # seconds that the phases may take that the number of examples makes no longer
LONGEST = 6.0  # seconds that one example of all operations may take, besides the other phases
# The lines of a finding that say what is wrong.
TELLING = re.compile(
    r"_+ .+ _+$|- |\[\d{3}\]|    [`{]|\w*(Error|Exception|Timeout)\b|Network Error$|Read timed out "
)
MOST, WIDEST = 10, 400  # of them that are told again at the end, and their characters


@dataclass
class Run:
    """One surface being tested."""

    surface: str
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> Path:
        return KEPT / f"schemathesis-{self.surface}.log"

    def findings(self) -> str:
        """What schemathesis says, from the errors and failures on."""
        text = self.log.read_text(errors="replace")
        starts = [at for mark in ("= ERRORS =", "= FAILURES =") if (at := text.find(mark)) >= 0]
        return text[text.rfind("\n", 0, min(starts)) + 1 :] if starts else text[-8000:]

    def digest(self) -> list[str]:
        """The findings by operation, what is wrong and the answer, as far as they fit the end of a longer log."""
        lines = [line.rstrip() for line in self.findings().splitlines()]
        return [line[:WIDEST] for line in lines if TELLING.match(line)][:MOST]


def start(surface: str, environment: dict[str, str]) -> Run:
    with (KEPT / f"schemathesis-{surface}.log").open("wb") as log:
        command = [sys.executable, str(HERE / "one.py"), surface, str(KEPT), *sys.argv[1:]]
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT, cwd=KEPT
        )
    return Run(surface, process)


def end(process: subprocess.Popen[bytes]) -> int:
    """Interrupts it, so that it tells what it has found; if it doesn't, kills it."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def outcome(run: Run, until: float) -> tuple[list[str], dict[str, Any]]:
    """The complaints about a surface, and its tally."""
    complaints = []
    try:
        status = run.process.wait(timeout=max(1.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        complaints.append(f"{run.surface}: it took too long, and was ended")
        status = end(run.process)
    if status != 0:
        print(f"\n=== {run.surface}: {run.log}\n{run.findings()}")
        complaints.append("\n  ".join([f"{run.surface}: findings", *run.digest()]))
    kept = KEPT / f"{run.surface}.json"
    tally: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"statuses": {}, "uses": []}
    return complaints, tally


def report(surface: str, tally: dict[str, Any], examples: int) -> list[str]:
    """Prints what every operation was answered, and which exceptions were made. What does not fit is a complaint, and so
    is an operation that got fewer requests than asked for."""
    exemptions, unreached = exceptions.read(surface)
    complaints = []
    print(f"\n{surface}: operation, requests, answered 2xx (or 101, 3xx), by status")
    for operation, statuses in sorted(tally["statuses"].items()):
        good = sum(count for status, count in statuses.items() if int(status) < 400)
        line = " ".join(f"{status}:{count}" for status, count in sorted(statuses.items()))
        requests = sum(statuses.values())
        print(f"  {operation:28} {requests:6} {good:6}  {line}")
        if requests < examples:
            complaints.append(f"{surface}: {operation} got {requests} requests")
        if good == 0 and operation not in unreached:
            complaints.append(
                f"{surface}: {operation} was never answered with success; give it what it needs, or list why"
            )
        if good > 0 and operation in unreached:
            complaints.append(f"{surface}: {operation} succeeds, but is listed as one that never does")
    print(f"\n{surface}: exceptions")
    for exemption, uses in zip(exemptions, tally["uses"], strict=False):
        print(f"  {uses:6} x {exemption}{'' if uses else '  <- not needed in this run'}")
    for operation, reason in sorted(unreached.items()):
        print(f"  never succeeds: {operation}: {reason}")
    return complaints


def main() -> int:
    os.environ["CLOUD_URL"], os.environ["WORKER_URL"] = (read_seed()[f"{surface}Url"] for surface in SURFACES)
    examples = int(os.environ.get("CONTRACT_EXAMPLES") or 300)
    number = int(os.environ.get("CONTRACT_SEED") or 1)
    print(f"CONTRACT_SEED={number} CONTRACT_EXAMPLES={examples}", flush=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    for surface in SURFACES:
        (KEPT / f"{surface}.json").unlink(missing_ok=True)
    begun = time.monotonic()
    runs = [start(surface, {"CONTRACT_EXAMPLES": str(examples), "CONTRACT_SEED": str(number)}) for surface in SURFACES]
    complaints, operations, requests = [], 0, 0
    for run in runs:
        found, tally = outcome(run, begun + LONGEST * examples + OTHERS)
        complaints += found
        complaints += report(run.surface, tally, examples)
        operations += len(tally["statuses"])
        requests += sum(sum(statuses.values()) for statuses in tally["statuses"].values())
    for complaint in complaints:
        print(f"FAILED  {complaint}")
    seconds = time.monotonic() - begun
    print(f"summary: {operations} operations, {requests} requests in {seconds:.0f} s, seed {number}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
