"""Tests of retries and errors, without input and output."""

from types import SimpleNamespace

import pytest

from browser_svc import core
from browser_svc.core import Answer, Call, Pause, send
from browser_svc.errors import ConflictError, LimitError, NotFoundError, SvcError, UnavailableError
from browser_svc.operations import launch, launch_webdriver, wait_for_human
from browser_svc.pytest_plugin import pytest_runtest_makereport


def perform(call, *answers):
    """Performs a call with these answers, and returns its result, the pauses and the number of requests."""
    operation, pauses, requests, left = send(call), [], 0, list(answers)
    effect = next(operation)
    try:
        while True:
            if isinstance(effect, Pause):
                pauses.append(effect.seconds)
                effect = operation.send(Answer())
            else:
                requests += 1
                effect = operation.send(left.pop(0))
    except StopIteration as end:
        return end.value, pauses, requests


def test_send_follows_retry_after():
    assert perform(Call("POST", "/x"), Answer(503, {"retry-after": "7"}), Answer(200, content=b'{"data":1}')) == (1, [7.0], 2)


def test_send_raises_if_retry_after_is_too_long():
    with pytest.raises(UnavailableError) as raised:
        perform(Call("GET", "/x"), Answer(429, {"retry-after": "60"}, b'{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"slow"}}'))
    assert (raised.value.retry_after, raised.value.code) == (60, "RATE_LIMIT_EXCEEDED")


def test_send_repeats_a_request_with_an_idempotency_key():
    call = Call("POST", "/x", safe=True)
    lost, in_progress = Answer(failure=OSError("reset")), Answer(409, {"retry-after": "1"})
    result, pauses, requests = perform(call, lost, in_progress, Answer(201, content=b'{"data":{}}'))
    assert (result, len(pauses), requests, len(call.headers["Idempotency-Key"])) == ({}, 2, 3, 36)


def test_send_does_not_repeat_a_launch_whose_answer_was_lost():
    with pytest.raises(UnavailableError, match="reset"):
        perform(Call("POST", "/x"), Answer(failure=OSError("reset")))


def test_send_repeats_a_launch_that_was_not_sent():
    assert perform(Call("POST", "/x"), Answer(failure=OSError("refused"), sent=False), Answer(200, content=b'{"data":1}'))[2] == 2


def test_send_raises_errors_by_code():
    with pytest.raises(ConflictError):
        perform(Call("GET", "/x"), Answer(409, content=b'{"error":{"code":"RESOURCE_CONFLICT","message":"ended"}}'))
    detail = b'"details":[{"field":"profileId","code":"CUSTOM","message":"concurrency_limit","constraint":{"current":3}}]'
    with pytest.raises(LimitError) as raised:
        perform(Call("POST", "/x"), Answer(402, {}, b'{"error":{"code":"AUTHORIZATION_ERROR","message":"full",' + detail + b"}}"))
    assert raised.value.details[0].constraint == {"current": 3}
    profiles = b'"details":[{"field":"profiles","code":"CUSTOM","message":"full","constraint":{"current":3,"limit":3}}]'
    with pytest.raises(LimitError):
        perform(Call("POST", "/x"), Answer(403, {}, b'{"error":{"code":"AUTHORIZATION_ERROR","message":"full",' + profiles + b"}}"))
    webdriver = b'{"value":{"error":"invalid argument","message":"wrong","data":{"code":"RESOURCE_CONFLICT"}}}'
    with pytest.raises(ConflictError, match="wrong"):
        perform(Call("POST", "/wd/hub/session"), Answer(400, content=webdriver))
    with pytest.raises(UnavailableError, match="<h1>"):
        perform(Call("POST", "/x"), Answer(502, content=b"<h1>Bad Gateway"))


def test_send_names_the_target_of_a_redirect():
    with pytest.raises(SvcError, match="redirects to https://other.example/x") as raised:
        perform(Call("GET", "/x"), Answer(307, {"location": "https://other.example/x"}, b"<a>Temporary Redirect</a>"))
    assert raised.value.status == 307


def test_launch_waits_no_longer_than_wait_seconds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(core.time, "monotonic", lambda: now[0])
    operation, waits = launch({"spec": {}, "waitSeconds": 60}), []
    effect = next(operation)
    with pytest.raises(UnavailableError):
        while True:
            if isinstance(effect, Pause):
                now[0] += effect.seconds
                effect = operation.send(Answer())
            else:
                waits.append(effect.body["waitSeconds"])
                now[0] += 40 if len(waits) == 1 else waits[-1]  # the worker stops, and another is full
                effect = operation.send(Answer(503))
    assert waits == [60, 20]


def test_launch_webdriver_ends_a_browser_that_it_cannot_return():
    operation = launch_webdriver("http://edge", {"spec": {}})
    assert next(operation).path == "/wd/hub/session"
    url = b'"ws://worker/w/1/browsers/b/devtools/browser/c"'
    session = b'{"svc:session":{"webSocketDebuggerUrl":' + url + b',"sessionId":"s"}}'
    answer = Answer(200, content=b'{"value":{"sessionId":"d","capabilities":' + session + b"}}")
    assert operation.send(answer).path == "http://edge/w/1/sessions/s"
    end = operation.send(Answer(404, content=b'{"error":{"code":"RESOURCE_NOT_FOUND","message":"gone"}}'))
    assert (end.method, end.path) == ("DELETE", "http://edge/w/1/wd/hub/session/d")
    with pytest.raises(NotFoundError, match="gone"):
        operation.send(Answer(404, content=b'{"value":{"error":"invalid session id","message":"It has ended."}}'))


def test_wait_for_human_cancels_the_handover_of_a_program_that_stops():
    operation = wait_for_human("/browsers/x", "Sign in.", 60, None)
    assert next(operation).method == "POST"
    assert operation.send(Answer(201, content=b'{"data":{"viewUrl":"u"}}')).query == {"waitSeconds": 30}
    assert operation.throw(KeyboardInterrupt()).method == "DELETE"
    with pytest.raises(KeyboardInterrupt):
        operation.send(Answer(200, content=b'{"data":{}}'))


def test_failed_test_has_the_trace_as_a_property():
    viewer = "https://worker/sessions/1/recording/viewer"
    info = SimpleNamespace(id="1", view_url=None, recording={"url": "https://worker/sessions/1/recording/player", "viewerUrl": viewer})
    item = SimpleNamespace(funcargs={"svc_session": SimpleNamespace(info=info)}, user_properties=[])
    report = SimpleNamespace(failed=True, sections=[])
    for _ in range(2):  # the test and its teardown
        hook = pytest_runtest_makereport(item)
        next(hook)
        with pytest.raises(StopIteration):
            hook.send(report)
    assert item.user_properties == [("svc.trace", viewer)]
    assert viewer in report.sections[0][1]
