"""The hooks of schemathesis: they prepare requests, count responses and drop allowed findings."""

from __future__ import annotations

import json
import random
from typing import Any

import requests
import schemathesis

from allowed_findings import AllowedFinding
from fixture import Fixture, operation_id
from identities import IDENTITY_HEADER
from request_statistics import RequestStatistics

# The request header with a generated number. It makes generated requests without parameters different, and hypothesis
# can vary the random choices of the preparation. The name is part of the seed of these choices.
RANDOM_NUMBER_HEADER = "X-Contract-Draw"


def register(fixture: Fixture, allowed: list[AllowedFinding], statistics: RequestStatistics, seed: int) -> None:
    """Registers all hooks. Schemathesis has one set of hooks for the whole process."""

    @schemathesis.hook
    def flatmap_case(_: Any, case: Any) -> Any:
        from hypothesis import strategies

        def add_number(number: int) -> Any:
            case.headers[RANDOM_NUMBER_HEADER] = str(number)
            return case

        return strategies.integers(0, 2**32 - 1).map(add_number)

    @schemathesis.hook
    def before_call(_: Any, case: Any, kwargs: dict[str, Any]) -> None:
        if IDENTITY_HEADER in case.headers:  # schemathesis sends a prepared request again
            return
        fixture.prepare(case, random.Random(f"{seed} {case.operation.label} {_content(case)}"))
        kwargs.setdefault("hooks", {"response": _close_upgraded})

    @schemathesis.hook
    def after_call(_: Any, case: Any, response: Any) -> None:
        phase = case.meta.phase.name.value if case.meta is not None else "unknown"
        if case.method.upper() == case.operation.method.upper():  # schemathesis also tries other methods on the path
            statistics.add(operation_id(case), response.status_code, case.headers.get(IDENTITY_HEADER, ""), phase)
        fixture.restore(case, response)

    @schemathesis.hook
    def filter_failure(_: Any, failure: Any, case: Any, response: Any) -> bool:
        if _check(failure) == "negative_data_rejection" and _has_null(case.body):
            return False  # the API accepts null for an optional field, which the schema does not describe
        if _check(failure) == "positive_data_acceptance" and "None" in (case.path_parameters or {}).values():
            return False  # schemathesis took the id from a response in which it is null
        body = response.content.decode(errors="replace")
        for entry in allowed:
            if entry.matches(operation_id(case), _check(failure), str(failure), response.status_code, body):
                entry.matched += 1
                return False
        return True


def _content(case: Any) -> str:
    parts = (case.path_parameters, dict(case.headers), case.cookies, case.query, case.body)
    return json.dumps(parts, sort_keys=True, default=str)


def _has_null(value: Any) -> bool:
    """Whether an object in the value has a member that is null, at any depth."""
    if isinstance(value, dict):
        return any(member is None or _has_null(member) for member in value.values())
    return isinstance(value, list) and any(_has_null(item) for item in value)


def _check(failure: Any) -> str:
    """The name of the check that reported the failure."""
    if failure.checks:
        return str(failure.checks[0])
    return str(failure.title).split("`")[1] if "`" in str(failure.title) else str(failure.title)


def _close_upgraded(response: requests.Response, *_: Any, **__: Any) -> None:
    """Closes an upgraded connection, because the connection pool must not use it for another HTTP request."""
    if response.status_code == requests.codes.switching_protocols:
        connection = getattr(response.raw, "_connection", None)
        if connection is not None:
            connection.close()
