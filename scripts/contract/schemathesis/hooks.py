"""Ties a surface, the exceptions and the tally to schemathesis."""

from __future__ import annotations

import json
import random
from typing import Any

import requests
import schemathesis

from exceptions import Exemption
from identities import MARK
from surface import Surface, operation_id
from tally import Tally

# The number that a generated request brings along, so that a request without any input differs from the next one, and
# hypothesis can make its chances smaller, too.
DRAW = "X-Contract-Draw"


def register(surface: Surface, exemptions: list[Exemption], tally: Tally, seed: int) -> None:
    """Registers all hooks. They are schemathesis' only way in, and hold for the whole process."""

    @schemathesis.hook
    def flatmap_case(_: Any, case: Any) -> Any:
        from hypothesis import strategies

        def drawn(number: int) -> Any:
            case.headers[DRAW] = str(number)
            return case

        return strategies.integers(0, 2**32 - 1).map(drawn)

    @schemathesis.hook
    def before_call(_: Any, case: Any, kwargs: dict[str, Any]) -> None:
        if MARK in case.headers:  # it is sent once more
            return
        surface.prepare(case, random.Random(f"{seed} {case.operation.label} {_content(case)}"))
        kwargs.setdefault("hooks", {"response": _close_upgraded})

    @schemathesis.hook
    def after_call(_: Any, case: Any, response: Any) -> None:
        phase = case.meta.phase.name.value if case.meta is not None else "unknown"
        if case.method.upper() == case.operation.method.upper():  # and not another one, tried on its path
            tally.add(operation_id(case), response.status_code, case.headers.get(MARK, ""), phase)
        surface.settle(case, response)

    @schemathesis.hook
    def filter_failure(_: Any, failure: Any, case: Any, response: Any) -> bool:
        if _check(failure) == "negative_data_rejection" and _has_null(case.body):
            return False  # null for an optional field is the same as leaving it out, which no schema can say
        body = response.content.decode(errors="replace")
        for exemption in exemptions:
            if exemption.covers(operation_id(case), _check(failure), str(failure), response.status_code, body):
                exemption.uses += 1
                return False
        return True


def _content(case: Any) -> str:
    parts = (case.path_parameters, dict(case.headers), case.cookies, case.query, case.body)
    return json.dumps(parts, sort_keys=True, default=str)


def _has_null(value: Any) -> bool:
    """Whether a member of the value, or of what is in it, is null."""
    if isinstance(value, dict):
        return any(member is None or _has_null(member) for member in value.values())
    return isinstance(value, list) and any(_has_null(item) for item in value)


def _check(failure: Any) -> str:
    """The name of the check that a failure comes from."""
    if failure.checks:
        return str(failure.checks[0])
    return str(failure.title).split("`")[1] if "`" in str(failure.title) else str(failure.title)


def _close_upgraded(response: requests.Response, *_: Any, **__: Any) -> None:
    """After an upgrade the connection speaks no HTTP any more: it must not go back to the pool."""
    if response.status_code == requests.codes.switching_protocols:
        connection = getattr(response.raw, "_connection", None)
        if connection is not None:
            connection.close()
