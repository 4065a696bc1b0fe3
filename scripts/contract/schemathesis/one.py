"""Runs schemathesis on one surface: one.py cloud|worker DIRECTORY. The directory gets the tally."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import checks
import exceptions
import hooks
from api import read_seed
from cloud import Cloud
from surface import Surface
from tally import Tally
from worker import Worker

CONFIG = Path(__file__).with_name("schemathesis.toml")


def main(name: str, directory: Path) -> int:
    import schemathesis.cli

    seed = read_seed()
    address = os.environ["CLOUD_URL" if name == "cloud" else "WORKER_URL"]
    surface: Surface = Cloud(seed) if name == "cloud" else Worker(seed)
    exemptions, _ = exceptions.read(name)
    tally, number, begun = Tally(), int(os.environ["CONTRACT_SEED"]), time.monotonic()
    hooks.register(surface, exemptions, tally, number)
    checks.register(surface)
    arguments = ["--config-file", str(CONFIG), "--no-color", "run", f"{address}/openapi.json", "--url", address]
    arguments += ["--seed", str(number), "--max-examples", os.environ["CONTRACT_EXAMPLES"], *sys.argv[3:]]
    try:
        schemathesis.cli.schemathesis.main(arguments, prog_name="st", standalone_mode=False)
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        surface.finish()
        uses = [entry.uses for entry in exemptions]
        tally.write(directory / f"{name}.json", uses=uses, seconds=time.monotonic() - begun)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
