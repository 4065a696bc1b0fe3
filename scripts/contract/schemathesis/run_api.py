"""Runs schemathesis on one API: run_api.py cloud|worker DIRECTORY. Writes the statistics to the directory."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import allowed_findings
import checks
import hooks
from api_client import read_seed
from cloud import CloudFixture
from fixture import Fixture
from request_statistics import RequestStatistics
from worker import WorkerFixture

CONFIG = Path(__file__).with_name("schemathesis.toml")


def main(api: str, directory: Path) -> int:
    import schemathesis.cli

    seed = read_seed()
    url = os.environ["CLOUD_URL" if api == "cloud" else "WORKER_URL"]
    fixture: Fixture = CloudFixture(seed) if api == "cloud" else WorkerFixture(seed)
    allowed, _ = allowed_findings.read(api)
    statistics, random_seed, started = RequestStatistics(), int(os.environ["CONTRACT_SEED"]), time.monotonic()
    hooks.register(fixture, allowed, statistics, random_seed)
    checks.register(fixture)
    arguments = ["--config-file", str(CONFIG), "--no-color", "run", f"{url}/openapi.json", "--url", url]
    arguments += ["--seed", str(random_seed), "--max-examples", os.environ["CONTRACT_EXAMPLES"], *sys.argv[3:]]
    try:
        schemathesis.cli.schemathesis.main(arguments, prog_name="st", standalone_mode=False)
        status = 0
    except SystemExit as exit_request:
        status = int(exit_request.code or 0)
    finally:
        fixture.clean_up()
        matched = [entry.matched for entry in allowed]
        statistics.write(directory / f"{api}.json", matched=matched, seconds=time.monotonic() - started)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
