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
    """Waits for the end of the download of the newest file with the name, and saves it."""
    latest = f"{files}/latest?{urllib.parse.urlencode({'name': name})}"
    with urllib.request.urlopen(urllib.request.Request(latest, headers=headers)) as response, open(target, "wb") as file:
        while block := response.read(1 << 20):
            file.write(block)
    return os.path.getsize(target)


def playwright(args, target):
    from playwright.sync_api import sync_playwright

    url = urllib.parse.urlsplit(args["endpoint"])
    files = f"{args['worker']}/browsers/{url.path.split('/browsers/')[1].split('/')[0]}/files"
    headers = {"X-Svc-Token": urllib.parse.parse_qs(url.query)["ct"][0]}
    with sync_playwright() as p:
        page = p.chromium.connect_over_cdp(args["endpoint"]).new_context().new_page()
        page.goto(args["url"])
        with page.expect_download() as download:
            page.click("a")
        return save(files, headers, download.value.suggested_filename, target)


def start_selenium(args):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.enable_downloads = True
    options.set_capability("svc:options", {"profileId": args["profile"]})
    return webdriver.Remote(args["endpoint"], options=options)


def selenium_managed(args, target):
    """Uses only the commands of Selenium."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    driver = start_selenium(args)
    try:
        driver.get(args["url"])
        driver.find_element(By.CSS_SELECTOR, "a").click()
        WebDriverWait(driver, 60).until(lambda _: driver.get_downloadable_files() == ["report.bin"])
        driver.download_file("report.bin", target)
        size = os.path.getsize(os.path.join(target, "report.bin"))
        driver.delete_downloadable_files()
        assert driver.get_downloadable_files() == []
        return size
    finally:
        driver.quit()


def selenium(args, target):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    driver = start_selenium(args)
    try:
        files = f"{args['worker']}/browsers/{driver.capabilities['svc:session']['launchId']}/files"
        headers = {"X-API-Key": args["key"]}
        driver.get(args["url"])
        driver.find_element(By.CSS_SELECTOR, "a").click()

        def has_started(_):
            with urllib.request.urlopen(urllib.request.Request(f"{files}?name=report.bin", headers=headers)) as response:
                return json.load(response)["data"]["items"]

        WebDriverWait(driver, 10).until(has_started)
        return save(files, headers, "report.bin", target)
    finally:
        driver.quit()


args = json.load(sys.stdin)
with redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as directory:
    size = globals()[sys.argv[1]](args, os.path.join(directory, "saved"))
print(json.dumps({"saved": size, "uploaded": size, "same": True}), flush=True)
os._exit(0)
