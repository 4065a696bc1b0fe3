"""Uses what a client of Playwright's own protocol has, and prints what it got as JSON. Java's PlaywrightFeatures does the same.

It reads its input, JSON, from standard input: the endpoint, which contains a key, the URL of the site and a directory with "large" and "tree".
"""

import json
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def visit(browser, site, directory, results):
    context = browser.new_context(
        record_video_dir=directory / "videos",
        record_har_path=directory / "requests.har",
        http_credentials={"username": "ada", "password": "secret"},
    )
    context.tracing.start(screenshots=True, snapshots=True)
    page = context.new_page()
    page.goto(site)
    results["title"] = page.title()
    with page.expect_popup() as popup:
        page.click("#popup")
    popup.value.wait_for_load_state()
    results["popup"] = popup.value.title()
    popup.value.close()  # complete Chromium lists directories only for pages in front
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(directory / "saved")
    results["download"] = (directory / "saved").read_text()
    page.set_input_files("#file", directory / "large")
    results["upload"] = page.evaluate("document.querySelector('#file').files[0].size")
    page.set_input_files("#directory", directory / "tree")
    results["directory"] = page.evaluate("[...document.querySelector('#directory').files].map(f => f.webkitRelativePath).sort()")
    page.route("**/changed", lambda route: route.fulfill(body=route.fetch(url=site + "/text").text() + " changed"))
    results["route"] = page.evaluate("fetch('/changed').then(r => r.text())")
    results["request"] = page.request.get(site + "/text").text()
    results["credentials"] = page.goto(site + "/protected").text()
    page.evaluate("localStorage.name = 'Ada'")
    context.storage_state(path=directory / "state.json")
    context.tracing.stop(path=directory / "trace.zip")
    context.close()
    page.video.save_as(directory / "video.webm")
    results["trace"] = (directory / "trace.zip").stat().st_size > 1000
    results["video"] = (directory / "video.webm").read_bytes()[:4].hex()
    results["har"] = '"' + site + '/protected"' in (directory / "requests.har").read_text()


def restore(browser, site, directory, results):
    context = browser.new_context(storage_state=directory / "state.json")
    page = context.new_page()
    page.goto(site)
    results["state"] = page.evaluate("localStorage.name")
    context.close()


def main():
    args, results = json.load(sys.stdin), {}
    site, directory = args["site"], Path(args["directory"])
    with sync_playwright() as p:
        browsers = [p.chromium.connect(args["endpoint"]) for _ in range(4)]
        visit(browsers[0], site, directory, results)
        restore(browsers[1], site, directory, results)
        results["browsers"] = sum(browser.new_page().goto(site).ok for browser in browsers)
        for browser in browsers:
            browser.close()
    print(json.dumps(results))


main()
