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


async def playwright(args):
    from playwright.async_api import async_playwright

    async with async_playwright() as p:
        if urlsplit(args["endpoint"]).path.endswith("/playwright"):
            browser = await p.chromium.connect(args["endpoint"])
            page = await browser.new_page()
        else:
            browser = await p.chromium.connect_over_cdp(args["endpoint"], headers=args.get("headers"))
            page = await browser.contexts[0].new_page()
        await page.goto(args["url"])
        value = await page.evaluate(args["expression"])
        results = await page.title(), value, browser.version, await page.screenshot()
        await page.close()
        return results


async def pydoll(args):
    from pydoll.browser.chromium import Chrome

    browser = Chrome()
    await browser.connect(args["endpoint"])
    tab = await browser.new_tab(args["url"])
    value = (await tab.execute_script("return " + args["expression"]))["result"]["result"]["value"]
    screenshot = base64.b64decode(await tab.take_screenshot(as_base64=True))
    results = await tab.title(), value, (await browser.get_version())["product"], screenshot
    await tab.close()
    return results


async def crawl4ai(args):
    from crawl4ai import AsyncWebCrawler, BrowserConfig, CacheMode, CrawlerRunConfig

    async with AsyncWebCrawler(config=BrowserConfig(cdp_url=args["endpoint"], verbose=False)) as crawler:
        script = f"document.body.dataset.seen = {args['expression']} + ' ' + navigator.userAgent"
        config = CrawlerRunConfig(cache_mode=CacheMode.BYPASS, screenshot=True, js_code=script, verbose=False)
        result = await crawler.arun(args["url"], config=config)
        value, agent = result.html.split('data-seen="')[1].split('"')[0].split(" ", 1)
        version = agent.split("Chrome/")[1].split(" ")[0]
        return result.metadata["title"], int(value), version, base64.b64decode(result.screenshot)


async def drissionpage(args):
    from DrissionPage import Chromium

    browser = await asyncio.to_thread(Chromium, args["endpoint"])
    tab = browser.new_tab(args["url"])
    value = tab.run_js("return " + args["expression"])
    results = tab.title, value, browser.version, tab.get_screenshot(as_bytes="png")
    tab.close()
    return results


async def nodriver(args):
    import nodriver as driver

    # nodriver cannot send credentials, and sends its HTTP requests with urllib.
    opener = urllib.request.build_opener()
    opener.addheaders = list(args["headers"].items())
    urllib.request.install_opener(opener)
    url = urlsplit(args["endpoint"])
    browser = await driver.Browser.create(driver.Config(host=url.hostname, port=url.port, browser_executable_path=sys.executable))
    tab = await browser.get(args["url"], new_tab=True)
    await tab
    value = await tab.evaluate(args["expression"])
    screenshot = base64.b64decode(await tab.send(driver.cdp.page.capture_screenshot()))
    results = await tab.evaluate("document.title"), value, browser.info["Browser"], screenshot
    await tab.close()
    return results


async def selenium(args):
    from selenium import webdriver
    from selenium.webdriver.remote.file_detector import LocalFileDetector

    driver = await asyncio.to_thread(webdriver.Remote, args["endpoint"], options=webdriver.ChromeOptions())
    try:
        driver.get(args["url"])
        value = driver.execute_script("return " + args["expression"])
        results = driver.title, value, driver.capabilities["browserVersion"], driver.get_screenshot_as_png()
        driver.file_detector = LocalFileDetector()
        driver.execute_script("document.body.innerHTML = '<input type=file>'")
        driver.find_element("css selector", "input").send_keys(__file__)
        size = driver.execute_script("return document.querySelector('input').files[0].size")
        if size != os.path.getsize(__file__):
            raise ValueError(f"the uploaded file has {size} bytes")
        return results
    finally:
        driver.quit()


async def browser_use(args):
    os.environ.update(ANONYMIZED_TELEMETRY="false", BROWSER_USE_LOGGING_LEVEL="warning")
    from browser_use import Browser

    browser = Browser(cdp_url=args["endpoint"], headers=args.get("headers"))
    await browser.start()
    page = await browser.new_page(args["url"])
    await browser.get_browser_state_summary(include_screenshot=False)  # waits for the page
    value = int(await page.evaluate(f"() => {args['expression']}"))
    agent = await page.evaluate("() => navigator.userAgent")
    results = await page.get_title(), value, agent.split("Chrome/")[1].split(" ")[0], base64.b64decode(await page.screenshot(format="png"))
    await browser.close_page(page)
    await browser.stop()
    return results


def scrapy_playwright(args):
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy_playwright.page import PageMethod

    results = []

    class Visit(scrapy.Spider):
        name = "visit"

        async def start(self):
            methods = [PageMethod("evaluate", script) for script in (args["expression"], "navigator.userAgent")] + [PageMethod("screenshot")]
            yield scrapy.Request(args["url"], meta={"playwright": True, "playwright_page_methods": methods})

        def parse(self, response):
            value, agent, screenshot = (method.result for method in response.meta["playwright_page_methods"])
            results.extend((response.css("title::text").get(), value, agent.split("Chrome/")[1].split(" ")[0], screenshot))

    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    process = CrawlerProcess({
        "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "PLAYWRIGHT_CDP_URL": args["endpoint"],
        "PLAYWRIGHT_CDP_KWARGS": {"headers": args.get("headers")},
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    })
    process.crawl(Visit)
    process.start()
    return tuple(results)


async def mcp(args):
    from mcp import ClientSession
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    async with create_mcp_http_client(headers=args["headers"]) as http, streamable_http_client(args["endpoint"], http_client=http) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            await session.call_tool("launch_browser", {})
            opened = await session.call_tool("navigate", {"url": args["url"]})
            screenshot = await session.call_tool("screenshot", {})
            title = opened.content[0].text.split('title "')[1].split('"')[0]
            data = next(part.data for part in screenshot.content if part.type == "image")
            return title, 0, "", base64.b64decode(data)


def run_client(client, args):
    if client == "scrapy_playwright":  # Scrapy runs its own event loop
        return scrapy_playwright(args)
    return asyncio.run(globals()[client](args))


def main():
    args = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        title, value, version, screenshot = run_client(sys.argv[1], args)
    print(json.dumps({"title": title, "value": value, "version": version, "screenshot": len(screenshot)}), flush=True)
    os._exit(0)  # some clients leave threads that wait for the browser


main()
