"""An HTTP client for the requests that the tests send themselves: to prepare generated requests, and to clean up."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import requests

TIMEOUT = 60.0  # seconds; a launch may take half of it

_address_numbers = count()


def unique_client_address() -> str:
    """An IP address that no other request has. The rate limits count by address, so they never refuse the request."""
    number = next(_address_numbers)
    return f"203.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.{number & 0xFF}"


class ApiError(RuntimeError):
    """The response to a request of ApiClient has an error status."""

    def __init__(self, response: requests.Response) -> None:
        request = response.request
        super().__init__(f"{request.method} {request.url}: {response.status_code} {response.text[:500]}")
        self.status = response.status_code


@dataclass
class ApiClient:
    """A client of one API, which sends the same headers with each request."""

    base: str
    headers: dict[str, str]
    session: requests.Session

    @classmethod
    def new(cls, base: str, **headers: str) -> ApiClient:
        return cls(base, headers, requests.Session())

    def with_token(self, token: str) -> ApiClient:
        """A client of the same API with the token of a dashboard session."""
        return ApiClient(self.base, {"Authorization": f"Bearer {token}"}, self.session)

    def with_key(self, key: str) -> ApiClient:
        """A client of the same API with an organization key or a worker key."""
        return ApiClient(self.base, {"X-API-Key": key}, self.session)

    def call(self, method: str, path: str, body: object = None, **query: Any) -> Any:
        """Sends a request and returns `data` of the response. Raises ApiError if the response is an error."""
        response = self.session.request(
            method,
            self.base + path,
            json=body,
            params=query,
            headers={"X-Forwarded-For": unique_client_address(), **self.headers},
            cookies={},
            timeout=TIMEOUT,
        )
        self.session.cookies.clear()  # the next request must have no other credential than its headers
        if not response.ok:
            raise ApiError(response)
        return response.json()["data"]


def read_seed() -> dict[str, Any]:
    """The seed file: URLs of the servers, and ids and credentials of the seeded data (see seed.go)."""
    seed: dict[str, Any] = json.loads(Path(os.environ["SEED"]).read_text())
    return seed
