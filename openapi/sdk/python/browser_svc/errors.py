"""Errors of the API, by `code`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass
class Detail:
    """What is wrong with one field."""

    field: str
    code: str
    message: str
    received: Any = None
    constraint: dict[str, Any] = dataclasses.field(default_factory=dict)


class SvcError(Exception):
    """A refused or failed call. `code` is that of the API, or "" for errors of this package."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        details: list[Detail] | None = None,
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.status = message, code, status
        self.details, self.request_id, self.retry_after = details or [], request_id, retry_after

    def __str__(self) -> str:
        wrong = "".join(f"\n  {detail.field}: {detail.message}" for detail in self.details)
        return f"{self.message}{f' ({self.code})' if self.code else ''}{wrong}"


class ValidationError(SvcError):
    """A value is not valid; `details` names the fields."""


class AuthenticationError(SvcError):
    """The key or token is missing, wrong or expired."""


class AuthorizationError(SvcError):
    """The call is not allowed."""


class LimitError(AuthorizationError):
    """The license has no free slot, or no profile is left. `wait_seconds` of a launch waits for a slot."""


class NotFoundError(SvcError):
    """The session, file or profile does not exist, or no longer."""


class ConflictError(SvcError):
    """The call does not fit the state, such as that of an ended session."""


class UnavailableError(SvcError):
    """The service, or the machine, cannot do it now: try again later."""


BY_CODE: dict[str, type[SvcError]] = {
    "VALIDATION_ERROR": ValidationError,
    "AUTHENTICATION_ERROR": AuthenticationError,
    "AUTHORIZATION_ERROR": AuthorizationError,
    "RESOURCE_NOT_FOUND": NotFoundError,
    "RESOURCE_CONFLICT": ConflictError,
    "RATE_LIMIT_EXCEEDED": UnavailableError,
    "EXTERNAL_SERVICE_ERROR": UnavailableError,
}
