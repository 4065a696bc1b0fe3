"""Who a generated request claims to be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from requests.structures import CaseInsensitiveDict

# What a request carries to tell who sent it, for the checks and for whoever reads a failure.
MARK = "X-Contract-As"


@dataclass(frozen=True)
class Identity:
    """A credential. `opens` are the document's security schemes that it satisfies; none when it is worthless."""

    name: str
    opens: frozenset[str] = frozenset()
    role: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)

    def accepted(self, operation: Any) -> bool:
        """Whether the document lets this credential in, whatever its role."""
        alternatives = security(operation)
        return not alternatives or bool(self.opens & alternatives)

    def allowed(self, operation: Any) -> bool:
        """Whether the document lets this credential do it."""
        return self.accepted(operation) and (self.role is None or self.role in roles(operation))

    def put_on(self, case: Any) -> None:
        """Makes a generated request this one's."""
        case._has_explicit_auth = bool(self.opens)  # for ignored_auth: it was not generated, so it must be good
        case.headers = CaseInsensitiveDict({**case.headers, **self.headers, MARK: self.name})
        if self.cookies:
            case.cookies = {**case.cookies, **self.cookies}
        if self.query:
            case.query = {**case.query, **self.query}


def security(operation: Any) -> frozenset[str]:
    """The names of the security schemes of which one is needed; none for a public operation."""
    everywhere = operation.schema.raw_schema.get("security", [])
    return frozenset(name for scheme in operation.definition.raw.get("security", everywhere) for name in scheme)


def roles(operation: Any) -> frozenset[str]:
    """The roles of which one is needed; all of them where the document names none."""
    return frozenset(operation.definition.raw.get("x-roles", ["owner", "admin", "member"]))


def bearer(name: str, token: str, role: str | None) -> Identity:
    return Identity(name, frozenset({"dashboardBearer"}), role, headers={"Authorization": f"Bearer {token}"})


def cookie(name: str, token: str, role: str | None) -> Identity:
    return Identity(name, frozenset({"dashboardSession"}), role, cookies={"svc_session": token})


def metrics(token: str) -> Identity:
    return Identity("metrics token", frozenset({"metricsToken"}), headers={"Authorization": f"Bearer {token}"})


def key(name: str, secret: str, *opens: str) -> Identity:
    return Identity(name, frozenset(opens), headers={"X-API-Key": secret})
