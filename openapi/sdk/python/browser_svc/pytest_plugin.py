"""Fixtures for pytest: a browser for each worker of pytest-xdist, and links to it in the report of failed tests.

SVC_WORKER and SVC_API_KEY, or --svc-worker, name the worker; the key is never on the command line.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from .client import Session, Svc


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("browser-svc")
    group.addoption("--svc-worker", help="URL of the worker, by default that of SVC_WORKER; SVC_API_KEY is its key")
    group.addoption("--svc-profile", help="id of the profile; without one, browsers have an ephemeral profile")
    parts = ["video", "events", "frames", "har", "trace"]
    group.addoption("--svc-record", action="append", choices=parts, help="record the browsers; can be repeated")


@pytest.fixture(scope="session")
def svc(pytestconfig: pytest.Config) -> Iterator[Svc]:
    from .client import Svc  # noqa: PLC0415

    with Svc(pytestconfig.getoption("--svc-worker")) as client:
        yield client


@pytest.fixture(scope="session")
def svc_session(svc: Svc, pytestconfig: pytest.Config) -> Iterator[Session]:
    """A browser, until the end of the tests."""
    settings: dict[str, Any] = {
        "record": pytestconfig.getoption("--svc-record"),
        "name": f"pytest {os.environ.get('PYTEST_XDIST_WORKER', '')}",
    }
    with svc.launch(pytestconfig.getoption("--svc-profile"), **settings) as session:
        yield session


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    session = getattr(item, "funcargs", {}).get("svc_session")
    if report.failed and session:
        report.sections.append(("browser-svc", "\n".join(links(session))))
        trace = ("svc.trace", (session.info.recording or {}).get("viewerUrl"))
        if trace[1] and trace not in item.user_properties:
            item.user_properties.append(trace)  # a property in the JUnit report
    return report


def links(session: Session) -> list[str]:
    """Links without tokens: a person signs in to the console of the worker."""
    info = session.info
    lines = [f"session:   {info.id}"]
    if info.view_url:
        lines.append(f"view:      {urlsplit(info.view_url)._replace(query='').geturl()}")
    if info.recording and info.recording.get("url"):
        lines.append(f"recording: {info.recording['url']}")
    if info.recording and info.recording.get("viewerUrl"):
        lines.append(f"trace:     {info.recording['viewerUrl']}")
    return lines
