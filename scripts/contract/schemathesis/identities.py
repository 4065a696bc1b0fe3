"""The identities with which generated requests are sent: valid and invalid credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from requests.structures import CaseInsensitiveDict

# The request header with the name of the identity. The checks read it, and it is in the reported requests.
IDENTITY_HEADER = "X-Contract-As"

# The name of the identities of disposable accounts.
DISPOSABLE = "disposable account"


@dataclass(frozen=True)
class Identity:
    """A credential. `schemes` are the security schemes that it satisfies; none if the credential is invalid."""

    name: str
    schemes: frozenset[str] = frozenset()
    role: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)

    def authenticated(self, operation: Any) -> bool:
        """Whether the operation accepts the credential, regardless of the role."""
        alternatives = security_schemes(operation)
        return not alternatives or bool(self.schemes & alternatives)

    def authorized(self, operation: Any) -> bool:
        """Whether the operation accepts the credential and the role."""
        return self.authenticated(operation) and (self.role is None or self.role in allowed_roles(operation))

    def apply_to(self, case: Any) -> None:
        """Adds the credential to a generated request."""
        # The check ignored_auth assumes that a generated credential is invalid.
        case._has_explicit_auth = bool(self.schemes)
        case.headers = CaseInsensitiveDict({**case.headers, **self.headers, IDENTITY_HEADER: self.name})
        if self.cookies:
            case.cookies = {**case.cookies, **self.cookies}
        if self.query:
            case.query = {**case.query, **self.query}


def security_schemes(operation: Any) -> frozenset[str]:
    """The names of the security schemes of which a request needs one; none for a public operation."""
    default = operation.schema.raw_schema.get("security", [])
    return frozenset(name for scheme in operation.definition.raw.get("security", default) for name in scheme)


def allowed_roles(operation: Any) -> frozenset[str]:
    """The roles of which a user needs one; all roles if the document lists none."""
    return frozenset(operation.definition.raw.get("x-roles", ["owner", "admin", "member"]))


def bearer_token(name: str, token: str, role: str | None) -> Identity:
    return Identity(name, frozenset({"dashboardBearer"}), role, headers={"Authorization": f"Bearer {token}"})


def session_cookie(name: str, token: str, role: str | None) -> Identity:
    return Identity(name, frozenset({"dashboardSession"}), role, cookies={"svc_session": token})


def metrics_token(token: str) -> Identity:
    return Identity("metrics token", frozenset({"metricsToken"}), headers={"Authorization": f"Bearer {token}"})


def api_key(name: str, secret: str, *schemes: str) -> Identity:
    return Identity(name, frozenset(schemes), headers={"X-API-Key": secret})
