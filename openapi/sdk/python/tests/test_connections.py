"""Tests with servers on the loopback interface that behave like a worker, or like a proxy in front of it."""

import contextlib
import json
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response
from websockets.sync.client import connect
from websockets.sync.server import serve

from browser_svc import Svc, operations, relay
from browser_svc.client import Session
from browser_svc.errors import SvcError, UnavailableError
from browser_svc.models import SessionInfo


@contextlib.contextmanager
def running(server):
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def connected(worker, **settings):
    """Yields a client that is connected by a relay to this worker, and the relay."""
    with running(serve(worker, "127.0.0.1", 0, max_size=None, **settings)) as server:
        address = f"127.0.0.1:{server.socket.getsockname()[1]}"
        target = relay.Relay(f"ws://{address}/cdp", "/browsers/b", f"http://{address}", {"X-API-Key": "secret"})
        try:
            with connect(target.url, max_size=None, compression=None) as client:
                yield client, target
        finally:
            target.close()


def echo(socket):
    """A worker that accepts a connection and answers calls."""
    socket.send('{"method":"Svc.resumed","params":{"received":0}}')
    with contextlib.suppress(ConnectionClosed):
        for message in socket:
            if not message.startswith(b'{"method":"Svc.' if isinstance(message, bytes) else '{"method":"Svc.'):
                socket.send(json.dumps({"id": json.loads(message)["id"], "result": {}}))


def test_relay_follows_no_redirect():
    requests = []

    def redirect(connection, request):
        requests.append(request.path)
        headers = connection.protocol.reject(302, "").headers
        headers["Location"] = "/other"
        return Response(302, "Found", headers)

    with connected(echo, process_request=redirect) as (client, _), pytest.raises(ConnectionClosed) as closed:
        client.recv(timeout=5)
    assert closed.value.rcvd.reason == "the worker answered 302 with Location '/other'"
    assert len(requests) == 1


def test_relay_refuses_a_call_that_is_too_large():
    with connected(echo) as (client, _):
        client.send(json.dumps({"id": 1, "sessionId": "s", "params": "x" * relay.MAX_MESSAGE}))
        client.send(json.dumps({"id": 2}))
        refused, answer = json.loads(client.recv(timeout=10)), json.loads(client.recv(timeout=10))
    assert (refused["id"], refused["sessionId"], refused["error"]["code"]) == (1, "s", -32000)
    assert answer == {"id": 2, "result": {}}


def test_relay_counts_only_resumed_connections():
    connections = []

    def worker(socket):
        connections.append(time.monotonic())
        if len(connections) in (2, 3):  # breaks before it is accepted
            socket.socket.close()
        else:
            socket.send('{"method":"Svc.resumed","params":{"received":0}}')
            if len(connections) == 1:
                time.sleep(0.1)
                socket.socket.close()
            else:
                socket.send('{"id":1}')
                with contextlib.suppress(ConnectionClosed):
                    socket.recv()

    with connected(worker) as (client, target):
        assert client.recv(timeout=5) == '{"id":1}'
        assert target.resumed == 1
    assert len(connections) == 4


class Worker(BaseHTTPRequestHandler):
    """Counts requests, and sends as much of a file as `sent` of the server says."""

    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path.endswith("/logs"):
            self.answer(200, {"Content-Type": "text/event-stream"}, b"")
        elif self.path.endswith("/files/latest"):
            self.answer(200, {"Content-Length": "4"}, b"data"[: self.server.sent])
        else:
            self.answer(302, {"Location": "/other"}, b"")

    def answer(self, status, headers, content):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def worker():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Worker)
    server.requests, server.sent = [], 4
    with server, running(server):
        server.url = f"http://127.0.0.1:{server.server_port}"
        yield server


@pytest.fixture
def session(worker):
    with Svc(worker.url, "key") as svc:
        yield Session(svc, SessionInfo.read(defaultdict(str, id="s", launchId="b")))


def test_http_follows_no_redirect(worker):
    with Svc(worker.url, "key") as svc, pytest.raises(SvcError, match="redirects to /other"):
        svc.sessions.get("x")
    assert worker.requests == ["/sessions/x"]


def test_download_replaces_no_file_before_it_is_complete(worker, session, monkeypatch, tmp_path):
    monkeypatch.setattr("browser_svc.client.time.sleep", lambda _: None)
    target, other = tmp_path / "report.csv", tmp_path / "report.csv.part"
    target.write_text("old")
    other.write_text("of the user")
    worker.sent = 2
    with pytest.raises(UnavailableError):
        session.download(target)
    assert (target.read_text(), other.read_text(), len(list(tmp_path.iterdir()))) == ("old", "of the user", 2)
    worker.sent = 4
    session.download(target)
    assert (target.read_text(), other.read_text(), len(list(tmp_path.iterdir()))) == ("data", "of the user", 2)


def test_logs_pause_after_a_stream_that_ends_early(worker, session, monkeypatch):
    pauses = []
    monkeypatch.setattr("browser_svc.client.time.sleep", pauses.append)
    with pytest.raises(UnavailableError, match="ended the stream"):
        list(session.logs(follow=True))
    assert (len(pauses), len(worker.requests)) == (operations.MAX_FAILURES, operations.MAX_FAILURES + 1)
