"""Launch browsers of svc and drive them with Playwright or Selenium."""

from .aio import AsyncSession, AsyncSvc, AsyncSvcCloud
from .client import Session, Svc, SvcCloud
from .errors import (
    AuthenticationError,
    AuthorizationError,
    ConflictError,
    Detail,
    LimitError,
    NotFoundError,
    SvcError,
    UnavailableError,
    ValidationError,
)
from .models import FileInfo, Handover, LicenseState, LogEntry, Machine, Profile, SessionInfo

__all__ = [
    "AsyncSession",
    "AsyncSvc",
    "AsyncSvcCloud",
    "AuthenticationError",
    "AuthorizationError",
    "ConflictError",
    "Detail",
    "FileInfo",
    "Handover",
    "LicenseState",
    "LimitError",
    "LogEntry",
    "Machine",
    "NotFoundError",
    "Profile",
    "Session",
    "SessionInfo",
    "Svc",
    "SvcCloud",
    "SvcError",
    "UnavailableError",
    "ValidationError",
]
