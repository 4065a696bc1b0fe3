"""Keeps a page busy over the relay of the Python SDK while its connection is cut repeatedly, and counts lost and wrong messages."""

import asyncio
import json
import sys
import urllib.request

from browser_svc import relay
from playwright.async_api import async_playwright

args = json.load(sys.stdin)
relay.HEARTBEAT_SECONDS, relay.SILENT_SECONDS = 0.5, 1.5


def enough():
    return json.load(urllib.request.urlopen(args["control"]))["enough"]


async def main():
    answers = wrong = events = wrong_events = large = 0
    target = relay.Relay(args["target"], args["browser"], args["worker"], {"X-API-Key": args["key"]})
    async with async_playwright() as p:
        browser = await p.chromium.connect_over_cdp(target.url)
        page = await browser.contexts[0].new_page()
        client = await page.context.new_cdp_session(page)

        def count_event(event):
            nonlocal events, wrong_events
            events += 1
            wrong_events += event["args"][0]["value"] != events

        client.on("Runtime.consoleAPICalled", count_event)
        await client.send("Runtime.enable")
        await page.evaluate("() => { window.sent = window.count = 0; window.timer = setInterval(() => console.log(++window.sent), 2) }")
        text, turn = "y" * 300_000, 0
        while not (answers and events and await asyncio.to_thread(enough)):
            for value in await asyncio.gather(*[page.evaluate("++window.count") for _ in range(5)]):
                answers += 1
                wrong += value != answers
            if turn % 5 == 0:  # large in both directions
                echo = await page.evaluate("text => text + text.length", text)
                wrong += echo != text + "300000"
                large += 1
            turn += 1
        sent = await page.evaluate("() => { clearInterval(window.timer); return window.sent }")
        count = await page.evaluate("window.count")
        await page.close()
        await browser.close()
    resumed = target.resumed
    target.close()
    return {
        "answers": answers,
        "wrongAnswers": wrong,
        "count": count,
        "events": events,
        "wrongEvents": wrong_events,
        "sent": sent,
        "large": large,
        "resumed": resumed,
    }


json.dump(asyncio.run(main()), sys.stdout)
