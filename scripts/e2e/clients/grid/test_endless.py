"""Tests that run until the client is killed: during commands, between commands, and with an open BiDi socket."""

import time

import pytest


@pytest.mark.capabilities({"webSocketUrl": True})
@pytest.mark.parametrize("number", range(10))
def test_endless(driver, site, number):
    driver.script.add_console_message_handler(print)
    driver.set_script_timeout(600)
    driver.get(f"{site}/start.html")
    if number % 2:
        driver.execute_async_script("document.title = 'never calls back'")
    while driver.current_url:
        time.sleep(0.5)
