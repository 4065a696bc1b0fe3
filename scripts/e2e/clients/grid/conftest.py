"""The fixtures of a suite for Selenium Grid. GRID_URL is the hub, with the credentials; SITE is the site under test."""

import os
import time

import pytest
from selenium import webdriver

GRID = os.environ["GRID_URL"]


@pytest.fixture(scope="session")
def grid():
    return GRID


@pytest.fixture(scope="session")
def site():
    return os.environ["SITE"]


@pytest.fixture
def options(request):
    """The capabilities of the session; the tests change them with the marker capabilities."""
    options = webdriver.ChromeOptions()
    options.set_capability("se:name", request.node.name)
    for marker in request.node.iter_markers("capabilities"):
        for name, value in marker.args[0].items():
            options.set_capability(name, value)
    return options


@pytest.fixture
def driver(options, record_property):
    record_property("requested", time.monotonic())
    driver = webdriver.Remote(command_executor=GRID, options=options)
    yield driver
    driver.quit()
    record_property("ended", time.monotonic())
