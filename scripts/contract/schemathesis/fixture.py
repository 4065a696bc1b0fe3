"""The base class of the fixtures, which give generated requests credentials and existing ids."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from identities import Identity, security_schemes

MAX_LAUNCH_WAIT = 600  # seconds; the maximum of waitSeconds of a launch

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CHROMIUM_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_ID_PATTERNS = {
    "browserGuid": _CHROMIUM_ID,
    "targetId": _CHROMIUM_ID,
    "extensionId": re.compile(r"[0-9a-f]{64}"),
    "file": _CHROMIUM_ID,
    "webDriverSessionId": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "webDriverCommand": re.compile(r".+", re.DOTALL),
}


def operation_id(case: Any) -> str:
    return str(case.operation.definition.raw["operationId"])


class GeneratedRequest:
    """A generated request before it is sent. Its random generator has the same seed in each run."""

    def __init__(self, case: Any, rng: random.Random, identity: Identity) -> None:
        self.case, self.rng, self.identity = case, rng, identity
        meta = case.meta
        self.in_scenario = meta is not None and meta.phase.name.value == "stateful"

    @property
    def authorized(self) -> bool:
        """Whether the identity is authorized for the operation, so that the request can change data."""
        return self.identity.authorized(self.case.operation)

    def random_bool(self, probability: float) -> bool:
        return self.rng.random() < probability

    def set_path_parameters(self, **values: str) -> None:
        """Replaces path parameters that have a valid format. Parameters with an invalid format do not change."""
        parameters = dict(self.case.path_parameters or {})
        for name, value in values.items():
            if _ID_PATTERNS.get(name, _UUID).fullmatch(str(parameters.get(name, ""))):
                parameters[name] = value
        if parameters != self.case.path_parameters:
            self.case.path_parameters = parameters

    def set_body_fields(self, **values: object) -> None:
        """Sets fields of the body if it is an object."""
        if isinstance(self.case.body, dict):
            self.case.body = {**self.case.body, **values}

    def set_query_parameters(self, **values: str) -> None:
        self.case.query = {**self.case.query, **values}

    def shorten_wait(self, maximum: int) -> None:
        """Sets a valid waitSeconds to 1. Otherwise the request could wait longer than the client."""
        body, query = self.case.body, self.case.query
        wait = body.get("waitSeconds") if isinstance(body, dict) else None
        if isinstance(wait, int) and 1 < wait <= maximum:
            self.set_body_fields(waitSeconds=1)
        text = str((query or {}).get("waitSeconds", ""))  # coverage requests have text
        if re.fullmatch(r"[0-9]{1,3}", text) and 1 < int(text) <= maximum:
            self.set_query_parameters(waitSeconds="1")


class Fixture(ABC):
    """Prepares the generated requests to one API, and cleans up after them."""

    def __init__(self) -> None:
        self.preparations: dict[str, Callable[[GeneratedRequest], None]] = {}  # by operation id

    @abstractmethod
    def identities(self) -> list[Identity]:
        """All identities, including invalid credentials."""

    @abstractmethod
    def scenario_identity(self, case: Any) -> Identity:
        """The identity for a step of a scenario. All steps must have access to the same data."""

    def choose_identity(self, case: Any, rng: random.Random) -> Identity:
        """Chooses an identity at random, in most cases an authorized one."""
        meta = case.meta
        if meta is not None and meta.phase.name.value == "stateful":
            return self.scenario_identity(case)
        # Operations refuse query parameters that the document does not describe.
        candidates = [
            identity
            for identity in self.identities()
            if not identity.query or identity.schemes & security_schemes(case.operation)
        ]
        authorized = [identity for identity in candidates if identity.authorized(case.operation)]
        return rng.choice(authorized if authorized and rng.random() < 0.75 else candidates)

    def prepare(self, case: Any, rng: random.Random) -> None:
        """Gives a request its identity, existing ids and other values that it needs to succeed without damage."""
        request = GeneratedRequest(case, rng, self.choose_identity(case, rng))
        self.prepare_common(request)
        preparation = self.preparations.get(operation_id(case))
        if preparation is not None:
            preparation(request)
        request.identity.apply_to(case)

    @abstractmethod
    def prepare_common(self, request: GeneratedRequest) -> None:
        """Makes the changes that requests of all operations need."""

    @abstractmethod
    def restore(self, case: Any, response: Any) -> None:
        """Reverts changes by a request that would affect later requests."""

    @abstractmethod
    def clean_up(self) -> None:
        """Removes the remaining data at the end of the run."""
