"""The calls that the stage makes on its own account: to prepare what a generated request needs, and to clean up."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import requests

TIMEOUT = 60.0  # seconds; a launch may take half of it

_addresses = count()


def address() -> str:
    """An address that nobody else calls from: the limits count by address, and these calls must not meet them."""
    number = next(_addresses)
    return f"203.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.{number & 0xFF}"


class Refused(RuntimeError):
    """A call of the stage's own was not answered with success."""

    def __init__(self, response: requests.Response) -> None:
        request = response.request
        super().__init__(f"{request.method} {request.url}: {response.status_code} {response.text[:500]}")
        self.status = response.status_code


@dataclass
class Api:
    """One surface, called with fixed headers."""

    base: str
    headers: dict[str, str]
    session: requests.Session

    @classmethod
    def at(cls, base: str, **headers: str) -> Api:
        return cls(base, headers, requests.Session())

    def bearing(self, token: str) -> Api:
        """The same surface for the holder of a dashboard session."""
        return Api(self.base, {"Authorization": f"Bearer {token}"}, self.session)

    def keyed(self, key: str) -> Api:
        """The same surface for the holder of a key."""
        return Api(self.base, {"X-API-Key": key}, self.session)

    def call(self, method: str, path: str, body: object = None, **query: Any) -> Any:
        """The `data` of a success; anything else is Refused."""
        response = self.session.request(
            method,
            self.base + path,
            json=body,
            params=query,
            headers={"X-Forwarded-For": address(), **self.headers},
            cookies={},
            timeout=TIMEOUT,
        )
        self.session.cookies.clear()  # every call says itself who makes it
        if not response.ok:
            raise Refused(response)
        return response.json()["data"]


def read_seed() -> dict[str, Any]:
    """What the house has made: addresses, users, keys and ids."""
    seed: dict[str, Any] = json.loads(Path(os.environ["SEED"]).read_text())
    return seed
