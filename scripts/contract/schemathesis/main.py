"""Tests the cloud and the worker concurrently with requests that schemathesis generates, and prints a report.

Environment variables:
SEED               the seed file
CONTRACT_EXAMPLES  the minimum number of examples for each operation (default 300)
CONTRACT_SEED      the random seed (default 1); runs with the same seed generate the same requests
CONTRACT_OUTPUT    the directory for logs and statistics (default bin/contract)
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

import allowed_findings
from api_client import read_seed

HERE = Path(__file__).parent
OUTPUT = Path(os.environ.get("CONTRACT_OUTPUT") or HERE.parents[2] / "bin" / "contract")
APIS = ("cloud", "worker")
SECONDS_PER_EXAMPLE = 6.0  # the time limit of one example of each operation
FIXED_SECONDS = 900.0  # the time limit of the phases that do not depend on the number of examples
# The lines of a finding that name the operation, the problem and the response.
DIGEST_LINE = re.compile(
    r"_+ .+ _+$|- |\[\d{3}\]|    [`{]|\w*(Error|Exception|Timeout)\b|Network Error$|Read timed out "
)
DIGEST_LINES, DIGEST_WIDTH = 10, 400


@dataclass
class ApiRun:
    """The test of one API."""

    api: str
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> Path:
        return OUTPUT / f"schemathesis-{self.api}.log"

    def findings(self) -> str:
        """The part of the log with the errors and failures."""
        text = self.log.read_text(errors="replace")
        starts = [start for mark in ("= ERRORS =", "= FAILURES =") if (start := text.find(mark)) >= 0]
        return text[text.rfind("\n", 0, min(starts)) + 1 :] if starts else text[-8000:]

    def digest(self) -> list[str]:
        """The most important lines of the findings. The list is short enough for the end of a longer log."""
        lines = [line.rstrip() for line in self.findings().splitlines()]
        return [line[:DIGEST_WIDTH] for line in lines if DIGEST_LINE.match(line)][:DIGEST_LINES]


def start(api: str, environment: dict[str, str]) -> ApiRun:
    with (OUTPUT / f"schemathesis-{api}.log").open("wb") as log:
        command = [sys.executable, str(HERE / "run_api.py"), api, str(OUTPUT), *sys.argv[1:]]
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT, cwd=OUTPUT
        )
    return ApiRun(api, process)


def interrupt(process: subprocess.Popen[bytes]) -> int:
    """Interrupts schemathesis, so that it prints its findings. Kills it if it does not exit within a minute."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def wait(run: ApiRun, deadline: float) -> tuple[list[str], dict[str, Any]]:
    """Waits for the test of an API. Returns the problems and the statistics."""
    problems = []
    try:
        status = run.process.wait(timeout=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        problems.append(f"{run.api}: the time limit is exceeded; schemathesis was interrupted")
        status = interrupt(run.process)
    if status != 0:
        print(f"\n=== {run.api}: {run.log}\n{run.findings()}")
        problems.append("\n  ".join([f"{run.api}: findings", *run.digest()]))
    file = OUTPUT / f"{run.api}.json"
    statistics: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"statuses": {}, "matched": []}
    return problems, statistics


def report(api: str, statistics: dict[str, Any], examples: int) -> list[str]:
    """Prints the statuses of each operation and the allowed findings. Returns the problems: an operation got too few
    requests, never succeeded, or succeeded although it is listed as never successful."""
    allowed, never_successful = allowed_findings.read(api)
    problems = []
    print(f"\n{api}: operation, requests, successful requests (2xx, 101, 3xx), requests by status")
    for operation, statuses in sorted(statistics["statuses"].items()):
        successful = sum(count for status, count in statuses.items() if int(status) < 400)
        line = " ".join(f"{status}:{count}" for status, count in sorted(statuses.items()))
        requests = sum(statuses.values())
        print(f"  {operation:28} {requests:6} {successful:6}  {line}")
        if requests < examples:
            problems.append(f"{api}: {operation} got {requests} requests, fewer than {examples}")
        if successful == 0 and operation not in never_successful:
            problems.append(
                f"{api}: {operation} never succeeded; prepare its requests in cloud*.py or worker.py, "
                f"or list it with a reason in {allowed_findings.FILE.name}"
            )
        if successful > 0 and operation in never_successful:
            problems.append(f"{api}: {operation} succeeded; remove it from {allowed_findings.FILE.name}")
    print(f"\n{api}: allowed findings")
    for entry, matched in zip(allowed, statistics["matched"], strict=False):
        print(f"  {matched:6} x {entry}{'' if matched else '  <- not needed in this run'}")
    for operation, reason in sorted(never_successful.items()):
        print(f"  never succeeds: {operation}: {reason}")
    return problems


def main() -> int:
    os.environ["CLOUD_URL"], os.environ["WORKER_URL"] = (read_seed()[f"{api}Url"] for api in APIS)
    examples = int(os.environ.get("CONTRACT_EXAMPLES") or 300)
    random_seed = int(os.environ.get("CONTRACT_SEED") or 1)
    print(f"CONTRACT_SEED={random_seed} CONTRACT_EXAMPLES={examples}", flush=True)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for api in APIS:
        (OUTPUT / f"{api}.json").unlink(missing_ok=True)
    started = time.monotonic()
    environment = {"CONTRACT_EXAMPLES": str(examples), "CONTRACT_SEED": str(random_seed)}
    runs = [start(api, environment) for api in APIS]
    problems, operations, requests = [], 0, 0
    for run in runs:
        run_problems, statistics = wait(run, started + SECONDS_PER_EXAMPLE * examples + FIXED_SECONDS)
        problems += run_problems
        problems += report(run.api, statistics, examples)
        operations += len(statistics["statuses"])
        requests += sum(sum(statuses.values()) for statuses in statistics["statuses"].values())
    for problem in problems:
        print(f"FAILED  {problem}")
    seconds = time.monotonic() - started
    print(f"summary: {operations} operations, {requests} requests in {seconds:.0f} s, seed {random_seed}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
