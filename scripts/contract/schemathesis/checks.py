"""Checks of responses in addition to those of schemathesis."""

from __future__ import annotations

from typing import Any

import schemathesis

from fixture import Fixture
from identities import IDENTITY_HEADER, Identity, allowed_roles, security_schemes

# The scenarios of schemathesis with a request that the document does not describe.
_UNDESCRIBED_SCENARIOS = {"unspecified_http_method", "unsupported_content_type", "malformed_content_type"}


def register(fixture: Fixture) -> None:
    """Registers the checks for one API with schemathesis."""

    def credentials(_: Any, response: Any, case: Any) -> None:
        identity = _identity(fixture, case)
        if identity is not None and not _undescribed(case):
            _check_authorization(identity, response.status_code, case.operation)

    def documented_status(_: Any, response: Any, case: Any) -> None:
        if _undescribed(case):
            return
        documented = case.operation.definition.raw["responses"]
        assert str(response.status_code) in documented, (
            f"{response.status_code} is documented only by `default`; documented statuses: {', '.join(documented)}"
        )

    for check in (credentials, documented_status):
        schemathesis.check(check)


def _identity(fixture: Fixture, case: Any) -> Identity | None:
    """The identity of a request; None for disposable accounts, which are always authorized."""
    name = case.headers.get(IDENTITY_HEADER)
    return next((identity for identity in fixture.identities() if identity.name == name), None)


def _undescribed(case: Any) -> bool:
    """Whether the request has a method or content type that the operation does not have."""
    scenario = getattr(case.meta.phase.data, "scenario", None) if case.meta is not None else None
    return scenario is not None and scenario.value in _UNDESCRIBED_SCENARIOS


def _check_authorization(identity: Identity, status: int, operation: Any) -> None:
    """Fails if an unauthorized request succeeds, or if a valid credential gets 401."""
    succeeded, schemes = status < 400, security_schemes(operation)
    if succeeded and not identity.authenticated(operation):
        raise AssertionError(f"{status} for {identity.name}, but the operation requires {_one_of(schemes)}")
    if succeeded and not identity.authorized(operation):
        roles = _one_of(allowed_roles(operation))
        raise AssertionError(f"{status} for {identity.name}, but the operation requires {roles}")
    if status == 401 and schemes and identity.authenticated(operation):
        raise AssertionError(f"401 for {identity.name}, but the operation accepts {_one_of(schemes)}")


def _one_of(names: frozenset[str]) -> str:
    return "one of: " + ", ".join(sorted(names))
