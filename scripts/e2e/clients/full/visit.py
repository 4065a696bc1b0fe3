"""Opens a page with a Python client, evaluates an expression, takes a screenshot and prints the results.

visit.py CLIENT reads its input, JSON, from standard input: URLs contain tokens, which must not be on a command line.
"""

import asyncio
import base64
import json
import os
import sys
import urllib.request
from contextlib import redirect_stdout
from urllib.parse import urlsplit


async def playwright(given):
    from playwright.async_api import async_playwright

    async with async_playwright() as p:
        browser = await p.chromium.connect_over_cdp(given["endpoint"], headers=given.get("headers"))
        page = await browser.contexts[0].new_page()
        await page.goto(given["url"])
        value = await page.evaluate(given["expression"])
        seen = await page.title(), value, browser.version, await page.screenshot()
        await page.close()
        return seen


async def pydoll(given):
    from pydoll.browser.chromium import Chrome

    browser = Chrome()
    await browser.connect(given["endpoint"])
    tab = await browser.new_tab(given["url"])
    value = (await tab.execute_script("return " + given["expression"]))["result"]["result"]["value"]
    picture = base64.b64decode(await tab.take_screenshot(as_base64=True))
    seen = await tab.title(), value, (await browser.get_version())["product"], picture
    await tab.close()
    return seen


async def crawl4ai(given):
    from crawl4ai import AsyncWebCrawler, BrowserConfig, CacheMode, CrawlerRunConfig

    async with AsyncWebCrawler(config=BrowserConfig(cdp_url=given["endpoint"], verbose=False)) as crawler:
        script = f"document.body.dataset.seen = {given['expression']} + ' ' + navigator.userAgent"
        config = CrawlerRunConfig(cache_mode=CacheMode.BYPASS, screenshot=True, js_code=script, verbose=False)
        result = await crawler.arun(given["url"], config=config)
        value, agent = result.html.split('data-seen="')[1].split('"')[0].split(" ", 1)
        version = agent.split("Chrome/")[1].split(" ")[0]
        return result.metadata["title"], int(value), version, base64.b64decode(result.screenshot)


async def drissionpage(given):
    from DrissionPage import Chromium

    browser = await asyncio.to_thread(Chromium, given["endpoint"])
    tab = browser.new_tab(given["url"])
    value = tab.run_js("return " + given["expression"])
    seen = tab.title, value, browser.version, tab.get_screenshot(as_bytes="png")
    tab.close()
    return seen


async def nodriver(given):
    import nodriver as driver

    # nodriver sends no credentials of its own, and fetches with urllib.
    opener = urllib.request.build_opener()
    opener.addheaders = list(given["headers"].items())
    urllib.request.install_opener(opener)
    at = urlsplit(given["endpoint"])
    browser = await driver.Browser.create(driver.Config(host=at.hostname, port=at.port, browser_executable_path=sys.executable))
    tab = await browser.get(given["url"], new_tab=True)
    await tab
    value = await tab.evaluate(given["expression"])
    picture = base64.b64decode(await tab.send(driver.cdp.page.capture_screenshot()))
    seen = await tab.evaluate("document.title"), value, browser.info["Browser"], picture
    await tab.close()
    return seen


async def selenium(given):
    from selenium import webdriver
    from selenium.webdriver.remote.file_detector import LocalFileDetector

    driver = await asyncio.to_thread(webdriver.Remote, given["endpoint"], options=webdriver.ChromeOptions())
    try:
        driver.get(given["url"])
        value = driver.execute_script("return " + given["expression"])
        seen = driver.title, value, driver.capabilities["browserVersion"], driver.get_screenshot_as_png()
        driver.file_detector = LocalFileDetector()
        driver.execute_script("document.body.innerHTML = '<input type=file>'")
        driver.find_element("css selector", "input").send_keys(__file__)
        size = driver.execute_script("return document.querySelector('input').files[0].size")
        if size != os.path.getsize(__file__):
            raise ValueError(f"the uploaded file has {size} bytes")
        return seen
    finally:
        driver.quit()


async def browser_use(given):
    os.environ.update(ANONYMIZED_TELEMETRY="false", BROWSER_USE_LOGGING_LEVEL="warning")
    from browser_use import Browser

    browser = Browser(cdp_url=given["endpoint"], headers=given.get("headers"))
    await browser.start()
    page = await browser.new_page(given["url"])
    await browser.get_browser_state_summary(include_screenshot=False)  # waits for the page
    value = int(await page.evaluate(f"() => {given['expression']}"))
    agent = await page.evaluate("() => navigator.userAgent")
    seen = await page.get_title(), value, agent.split("Chrome/")[1].split(" ")[0], base64.b64decode(await page.screenshot(format="png"))
    await browser.close_page(page)
    await browser.stop()
    return seen


def scrapy_playwright(given):
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy_playwright.page import PageMethod

    seen = []

    class Visit(scrapy.Spider):
        name = "visit"

        async def start(self):
            methods = [PageMethod("evaluate", script) for script in (given["expression"], "navigator.userAgent")] + [PageMethod("screenshot")]
            yield scrapy.Request(given["url"], meta={"playwright": True, "playwright_page_methods": methods})

        def parse(self, response):
            value, agent, picture = (method.result for method in response.meta["playwright_page_methods"])
            seen.extend((response.css("title::text").get(), value, agent.split("Chrome/")[1].split(" ")[0], picture))

    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    process = CrawlerProcess({
        "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "PLAYWRIGHT_CDP_URL": given["endpoint"],
        "PLAYWRIGHT_CDP_KWARGS": {"headers": given.get("headers")},
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    })
    process.crawl(Visit)
    process.start()
    return tuple(seen)


async def mcp(given):
    from mcp import ClientSession
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    async with create_mcp_http_client(headers=given["headers"]) as http, streamable_http_client(given["endpoint"], http_client=http) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            await session.call_tool("launch_browser", {})
            opened = await session.call_tool("navigate", {"url": given["url"]})
            picture = await session.call_tool("screenshot", {})
            title = opened.content[0].text.split('title "')[1].split('"')[0]
            data = next(part.data for part in picture.content if part.type == "image")
            return title, 0, "", base64.b64decode(data)


def result(client, given):
    if client == "scrapy_playwright":  # Scrapy runs its own event loop
        return scrapy_playwright(given)
    return asyncio.run(globals()[client](given))


def main():
    given = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        title, value, version, picture = result(sys.argv[1], given)
    print(json.dumps({"title": title, "value": value, "version": version, "screenshot": len(picture)}), flush=True)
    os._exit(0)  # some clients leave threads that wait for the browser


main()
