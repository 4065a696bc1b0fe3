"""The parts of answers that programs use most, with types. `raw` is the whole answer."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeVar

from .core import api_name

M = TypeVar("M", bound="Model")


@dataclass(frozen=True)
class Model:
    schema: ClassVar[str]  # the name in the document
    raw: dict[str, Any]

    @classmethod
    def read(cls: type[M], data: dict[str, Any]) -> M:
        values: dict[str, Any] = {"raw": data}
        for field in fields(cls):
            if field.name != "raw":
                values[field.name] = data.get(api_name(field.name)) if field.default is not MISSING else data[api_name(field.name)]
        return cls(**values)


@dataclass(frozen=True)
class SessionInfo(Model):
    schema = "BrowserSession"
    id: str
    launch_id: str
    status: str
    profile_id: str
    profile_name: str
    browser_version: int
    engine: str
    headless: bool
    started_at: str
    ended_at: str | None
    end_reason: str | None
    data_saved: bool | None
    expires_at: str | None
    name: str | None
    metadata: dict[str, str] | None
    web_socket_debugger_url: str | None
    view_url: str | None
    recording: dict[str, Any] | None


@dataclass(frozen=True)
class FileInfo(Model):
    schema = "LaunchFile"
    id: str
    name: str
    source: str
    state: str
    size: int
    sha256: str | None
    path: str | None


@dataclass(frozen=True)
class LogEntry(Model):
    schema = "PageLogEntry"
    seq: int
    at: str
    kind: str
    level: str
    text: str
    url: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Handover(Model):
    schema = "Handover"
    status: str  # done, timeout or canceled
    reason: str
    seconds: float | None
    note: str | None


@dataclass(frozen=True)
class Profile(Model):
    schema = "Profile"
    id: str
    name: str
    browser_version: int
    persist: bool
    tags: list[str]
    version: int


@dataclass(frozen=True)
class LicenseState(Model):
    schema = "LicenseSessions"
    current: int
    limit: int | None
    running_sessions: int
    reserved_slots: int


@dataclass(frozen=True)
class Machine(Model):
    schema = "Machine"
    machine_id: str
    name: str | None
    state: str
    public_url: str | None
    sessions: int
    draining: bool | None
