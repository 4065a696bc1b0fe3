"""What we hold a surface to beyond schemathesis' own checks."""

from __future__ import annotations

from typing import Any

import schemathesis

from identities import MARK, Identity, roles, security
from surface import Surface

_PROBES = {"unspecified_http_method", "unsupported_content_type", "malformed_content_type"}


def register(surface: Surface) -> None:
    """Adds the checks of a surface to those of schemathesis."""

    def credentials(_: Any, response: Any, case: Any) -> None:
        who = _sender(surface, case)
        if who is not None and not _probe(case):
            _hold_credential(who, response.status_code, case.operation)

    def documented_status(_: Any, response: Any, case: Any) -> None:
        if _probe(case):
            return
        documented = case.operation.definition.raw["responses"]
        assert str(response.status_code) in documented, (
            f"{response.status_code} is not documented but by `default`; documented: {', '.join(documented)}"
        )

    for check in (credentials, documented_status):
        schemathesis.check(check)


def _sender(surface: Surface, case: Any) -> Identity | None:
    """Who sent it; None for accounts of the stage's own, which are let in on purpose."""
    name = case.headers.get(MARK)
    return next((one for one in surface.identities() if one.name == name), None)


def _probe(case: Any) -> bool:
    """Whether the request is none of the operation's: another method, or another kind of body."""
    scenario = getattr(case.meta.phase.data, "scenario", None) if case.meta is not None else None
    return scenario is not None and scenario.value in _PROBES


def _hold_credential(who: Identity, status: int, operation: Any) -> None:
    served, schemes = status < 400, security(operation)
    if served and not who.accepted(operation):
        raise AssertionError(f"{status} for {who.name}, but it takes one of: {', '.join(sorted(schemes))}")
    if served and not who.allowed(operation):
        raise AssertionError(f"{status} for {who.name}, but it takes one of: {', '.join(sorted(roles(operation)))}")
    if status == 401 and schemes and who.accepted(operation):
        raise AssertionError(f"401 for {who.name}, whose credential is good: {', '.join(sorted(schemes))}")
