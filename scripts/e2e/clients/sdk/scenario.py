"""Runs the examples of the README of the Python SDK, and checks what they did. Input and result are JSON.

scenario.py worker|cloud: the part for which only the worker, or only the cloud, is reachable.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import MISSING, fields

import browser_svc
from browser_svc import models
from browser_svc.core import api_name

args = json.load(sys.stdin)
with open(args["readme"]) as file:
    blocks = re.findall(
        r"```python\n(.*?)```",
        file.read().replace("https://shop.example", args["site"]).replace("156", str(args["version"])),
        re.S,
    )
first, selenium, asynchronous, cloud, plugin = blocks


def run(block):
    """Runs an example, and returns its variables and what it printed."""
    out, names = io.StringIO(), {}
    with contextlib.redirect_stdout(out):
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    return names, out.getvalue()


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def check_first():
    with open("order.csv", "w") as file:
        file.write("2,teapot\n")
    names, printed = run(first)
    return {
        "lines": len([line for line in first.splitlines() if line.strip()]),
        "report": read("report.csv"),
        "video": read("session.webm", "rb")[:4].hex(),
        "resumed": names["session"].resumed > 0,
        "link": "/view?ct=" in printed,
        "end": names["session"].info.status,
    }


def check_selenium():
    os.unlink("report.csv")
    run(selenium)
    return read("report.csv")


def check_session():
    """What no example has."""
    refused = {}
    with browser_svc.Svc(args["worker"], args["key"]) as svc:
        with svc.launch(name="checks", keep_files=True, start_urls=[args["site"]]) as session:
            session.recording.start(["events"])
            entries = session.logs(follow=True)
            log = next(entry.text for entry in entries if entry.kind == "console")
            same = svc.sessions.get(session.id)
            path = same.upload("order.csv")
            files = [(file.name, file.source) for file in session.files()]
            listed = [info.name for info in svc.sessions.list(status="running", name="checks")]
            cookies = session.state()["cookies"]
            changed = session.update(name="changed").name
            no_driver = failure(session.selenium, browser_svc.SvcError)
            session.recording.stop()
            session.recording.save("events.jsonl", "events")
        last = [entry for entry in entries if entry.kind == "console"]  # until the end of the stream
        refused["unknown"] = failure(
            lambda: svc.sessions.get("019a5f3e-a1b2-7c3d-8e4f-5a6b7c8d9e05"),
            browser_svc.NotFoundError,
        )
        error = failure(lambda: svc.launch(spec={"locale": 1}), browser_svc.ValidationError)
        refused["invalid"], detail = error, [detail.field for detail in error.details]
    with browser_svc.Svc(args["worker"], "wrong") as svc:
        refused["key"] = failure(svc.sessions.list, browser_svc.AuthenticationError)
    with browser_svc.Svc("http://127.0.0.1:9", "key") as svc:
        refused["down"] = failure(svc.sessions.list, browser_svc.UnavailableError)
    return {
        "path": path.endswith("/order.csv"), "files": files, "listed": listed, "cookies": cookies, "changed": changed, "detail": detail,
        "driver": str(no_driver), "log": log, "last": len(last), "events": json.loads(read("events.jsonl").splitlines()[0])["kind"],
        "refused": {name: [error.code, error.status, bool(error.request_id)] for name, error in refused.items()},
    }  # fmt: skip


def failure(call, kind):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def check_plugin():
    with open("test_shop.py", "w") as file:
        file.write(plugin + "\ndef test_fails(browser, svc_session):\n    assert not svc_session.id\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "each",
        "--svc-record",
        "video",
        "test_shop.py",
    ]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    return {
        "counts": re.findall(r"\d+ (?:passed|failed|error)", out), "browsers": len(set(re.findall(r"session: +(\S+)", out))),
        "links": bool(re.search(r"view: +http\S+/view\n", out) and re.search(r"recording: +http\S+/player\n", out)),
        "output": "" if "2 passed" in out else out,
    }  # fmt: skip


def check_models(client):
    """Compares the fields of the models with the document."""
    schemas = client.request("GET", "/openapi.json")["components"]["schemas"]
    wrong, found = [], 0
    for model in models.Model.__subclasses__():
        if model.schema not in schemas:
            continue
        found += 1
        schema = schemas[model.schema]
        for field in fields(model):
            name = api_name(field.name)
            required = field.default is MISSING
            if field.name != "raw" and (name not in schema["properties"] or (required and name not in schema["required"])):
                wrong.append(f"{model.__name__}.{field.name}")
    return [found, wrong]


def import_milliseconds():
    """The minimum of five imports, without the start of Python."""

    def best(code):
        def once():
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", code], check=True)
            return time.monotonic() - began

        return min(once() for _ in range(5))

    return round(1000 * (best("import browser_svc") - best("pass")))


os.chdir(args["directory"])
os.environ.update(args["environment"])
if sys.argv[1] == "worker":
    result = {
        "first": check_first(),
        "selenium": check_selenium(),
        "async": run(asynchronous)[1],
        "session": check_session(),
        "pytest": check_plugin(),
    }
    with browser_svc.Svc(args["worker"], args["key"]) as svc:
        result["models"] = check_models(svc)
    result["import"] = import_milliseconds()
else:
    result = {"printed": run(cloud)[1]}
    with browser_svc.SvcCloud(os.environ["SVC_CLOUD_URL"], token=os.environ["SVC_TOKEN"]) as client:
        result["models"] = check_models(client)
json.dump(result, sys.stdout)
