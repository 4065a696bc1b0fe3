"""Tests that run until the client is killed: during commands, between commands, and with an open BiDi socket."""

import time

import pytest


@pytest.mark.capabilities({"webSocketUrl": True})
@pytest.mark.parametrize("number", range(10))
def test_endless(driver, site, number):
    driver.get(f"{site}/start.html")
    driver.script.add_console_message_handler(print)
    driver.set_script_timeout(600)
    if number % 2:
        driver.execute_async_script("document.title = 'never calls back'")
    while driver.title:
        time.sleep(0.5)
