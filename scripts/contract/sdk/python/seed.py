"""The seeded data of the servers, and the output of the scenario."""

import json
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Seed:
    """The file at SEED and the URLs of the servers."""

    cloud_url: str
    worker_url: str
    email: str
    password: str
    organization_id: str
    organization_key: str
    worker_key: str
    full_key: str
    full_profile_id: str
    browser_version: int

    @staticmethod
    def read() -> "Seed":
        with open(os.environ["SEED"], encoding="utf-8") as file:
            seed: dict[str, Any] = json.load(file)
        return Seed(
            cloud_url=os.environ["CLOUD_URL"],
            worker_url=os.environ["WORKER_URL"],
            email=seed["owner"]["email"],
            password=seed["owner"]["password"],
            organization_id=seed["organizationId"],
            organization_key=seed["organizationKey"],
            worker_key=seed["workerKey"],
            full_key=seed["full"]["organizationKey"],
            full_profile_id=seed["full"]["profileId"],
            browser_version=seed["browserVersion"],
        )


def ok(step: str, details: str) -> None:
    """Prints the line of a successful step."""
    print(f"ok  {step:24} {details}", flush=True)


def expect(condition: bool, message: str) -> None:
    """Ends the scenario with the message if the condition is false."""
    if not condition:
        raise SystemExit(f"FAILED: {message}")
