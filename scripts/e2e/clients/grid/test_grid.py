"""What suites for Selenium Grid do, each test in a session of its own."""

import base64
import json
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.file_detector import LocalFileDetector
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import Select, WebDriverWait


def wait(driver):
    return WebDriverWait(driver, 20)


@pytest.mark.capabilities({"se:downloadsEnabled": True})
def test_managed_downloads(driver, site, tmp_path):
    driver.get(f"{site}/start.html")
    driver.execute_script("location.href = '/report'")
    wait(driver).until(lambda _: driver.get_downloadable_files() == ["report.txt"])
    driver.download_file("report.txt", str(tmp_path))
    assert (tmp_path / "report.txt").read_text() == "content of the site"
    driver.delete_downloadable_files()
    assert driver.get_downloadable_files() == []


def test_upload(driver, site, tmp_path):
    driver.file_detector = LocalFileDetector()
    first, second = tmp_path / "first ä.txt", tmp_path / "second.txt"
    first.write_text("one")
    second.write_text("two")
    driver.get(f"{site}/form.html")
    driver.find_element(By.ID, "files").send_keys(f"{first}\n{second}")
    wait(driver).until(expected_conditions.text_to_be_present_in_element((By.ID, "read"), "first ä.txt: one, second.txt: two"))


@pytest.mark.capabilities({"webSocketUrl": True})
def test_bidi_logs(driver, site):
    assert driver.capabilities["se:bidi"] == driver.capabilities["webSocketUrl"]
    messages, errors = [], []
    driver.script.add_console_message_handler(messages.append)
    driver.script.add_javascript_error_handler(errors.append)
    driver.get(f"{site}/log.html")
    for button in "log", "warn", "throw":
        driver.find_element(By.ID, button).click()
    wait(driver).until(lambda _: len(messages) == 2 and errors)
    assert [(message.method, message.text) for message in messages] == [("log", "Hello 42"), ("warn", "Careful")]
    assert errors[0].text == "Error: On purpose"


def test_cdp(driver, site):
    async def emulate():
        async with driver.bidi_connection() as connection:
            emulation = connection.devtools.emulation
            await connection.session.execute(emulation.set_user_agent_override(user_agent="a Grid suite"))
            driver.get(f"{site}/start.html")
            assert driver.execute_script("return navigator.userAgent") == "a Grid suite"

    trio.run(emulate)
    version = driver.execute("executeCdpCommand", {"cmd": "Browser.getVersion", "params": {}})["value"]
    assert driver.capabilities["se:cdpVersion"] in version["product"]


@pytest.mark.capabilities({"se:timeZone": "Asia/Tokyo", "se:screenResolution": "1600x900x24"})
def test_time_zone_and_screen(driver, site):
    driver.get(f"{site}/start.html")
    assert driver.execute_script("return Intl.DateTimeFormat().resolvedOptions().timeZone") == "Asia/Tokyo"
    assert driver.execute_script("return [screen.width, screen.height]") == [1600, 900]


def test_status(driver, grid):
    url = urlsplit(grid)
    credentials = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
    request = urllib.request.Request(
        url._replace(netloc=f"{url.hostname}:{url.port}").geturl() + "/status", headers={"Authorization": f"Basic {credentials}"}
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        (node,) = json.load(response)["value"]["nodes"]
    assert node["availability"] == "UP" and len(node["slots"]) == node["maxSessions"]
    running = [slot["session"]["sessionId"] for slot in node["slots"] if slot["session"]]
    assert driver.capabilities["svc:session"]["sessionId"] in running


@pytest.mark.parametrize("color", ["Red", "Green", "Blue"])
def test_sends_form(driver, site, color):
    driver.get(f"{site}/form.html")
    name = driver.find_element(By.ID, "name")
    name.clear()
    name.send_keys(color)
    Select(driver.find_element(By.ID, "color")).select_by_visible_text(color)
    driver.find_element(By.ID, "send").click()
    wait(driver).until(expected_conditions.title_is("Sent"))
    assert f"color={color[0].lower()}" in driver.find_element(By.TAG_NAME, "pre").text


def test_saves_screenshot(driver, site, tmp_path):
    driver.get(f"{site}/start.html")
    assert driver.save_screenshot(str(tmp_path / "page.png"))
    assert Path(tmp_path / "page.png").stat().st_size > 1000
