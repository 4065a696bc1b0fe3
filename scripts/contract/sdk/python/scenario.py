"""The scenario from sign-in to sign-out, with the clients of openapi-python-client."""

import time
from typing import TypeVar
from uuid import UUID, uuid4

import httpx
import svc_cloud
import svc_worker
from seed import Seed, expect, ok
from svc_cloud import models as cloud_models
from svc_cloud.api.authentication import get_auth_session, sign_in, sign_out
from svc_cloud.api.license_ import authorize_launch
from svc_cloud.api.organizations import activate_organization
from svc_cloud.api.profiles import create_profile, delete_profile, get_profile, list_profiles
from svc_cloud.api.worker_integration import end_profile_session
from svc_worker import models as worker_models
from svc_worker.api.sessions import get_browser_session, kill_browser_session, launch_profile

seed = Seed.read()
timeout = httpx.Timeout(100)  # a launch may take 90 seconds

# Each API has one client for each credential.
anybody = svc_cloud.Client(base_url=seed.cloud_url, timeout=timeout)


def fleet_of(key: str) -> svc_cloud.AuthenticatedClient:
    """The client of an organization's workers."""
    return svc_cloud.AuthenticatedClient(
        base_url=seed.cloud_url, token=key, prefix="", auth_header_name="X-API-Key", timeout=timeout
    )


fleet, full_fleet = fleet_of(seed.organization_key), fleet_of(seed.full_key)
host = svc_worker.AuthenticatedClient(
    base_url=seed.worker_url, token=seed.worker_key, prefix="", auth_header_name="X-API-Key", timeout=timeout
)
T = TypeVar("T")


def unwrap(answer: T | cloud_models.ErrorResponse | worker_models.ErrorResponse | None) -> T:
    """Returns the response, or exits with the code of the error."""
    if isinstance(answer, cloud_models.ErrorResponse | worker_models.ErrorResponse):
        raise SystemExit(f"FAILED: {answer.error.code}: {answer.error.message}")
    if answer is None:
        raise SystemExit("FAILED: the response is not documented")
    return answer


def enter() -> svc_cloud.AuthenticatedClient:
    """Signs in, and returns a client with the session of the user."""
    body = cloud_models.SignInRequest(email=seed.email, password=seed.password)
    session = unwrap(sign_in.sync(client=anybody, body=body)).data
    ok("sign in", f"{session.user.email}, until {session.expires_at:%Y-%m-%d}")
    me = svc_cloud.AuthenticatedClient(base_url=seed.cloud_url, token=session.token, timeout=timeout)

    organization = unwrap(activate_organization.sync(UUID(seed.organization_id), client=me)).data
    expect(organization.active, "the organization is not active")
    ok("activate organization", f"{organization.name}, as its {organization.role}")
    return me


def create(me: svc_cloud.AuthenticatedClient) -> UUID:
    body = cloud_models.CreateProfileRequest(
        name="Checkout in German",
        browser_version=seed.browser_version,
        os=cloud_models.OperatingSystem.LINUX,
        locale="de-DE",
        timezone_id="Europe/Berlin",
        viewport=cloud_models.SizeOrNull(width=1280, height=720),
    )
    profile = unwrap(create_profile.sync(client=me, body=body)).data
    expect(profile.os is cloud_models.OperatingSystem.LINUX, "the profile is not the one that was asked for")
    expect(profile.viewport is not None and profile.viewport.width == 1280, "the viewport is another one")
    expect(profile.proxy is None, "the profile has a proxy")
    ok("create a profile", f"{profile.name}, version {profile.version}")
    return profile.id


def authorize(profile_id: UUID) -> UUID:
    """Reserves a slot, as a worker does before it launches."""
    body = cloud_models.AuthorizeRequest(machine_id="sdk", boot_id=uuid4(), session_id=uuid4(), profile_id=profile_id)
    verdict = unwrap(authorize_launch.sync(client=fleet, body=body)).data
    config = verdict.profile_config
    expect(verdict.allowed, "the launch is not allowed")
    expect(isinstance(config, cloud_models.ProfileConfig) and config.locale == "de-DE", "the settings are others")
    ok("authorize", f"allowed, {verdict.current} of {verdict.limit or 'unlimited'}")

    # A refusal has status 402 and the envelope of a success.
    body.profile_id = UUID(seed.full_profile_id)
    answer = authorize_launch.sync_detailed(client=full_fleet, body=body)
    refusal = unwrap(answer.parsed).data
    expect(answer.status_code == 402, f"the full organization got {answer.status_code}, not 402")
    expect(refusal.reason is cloud_models.RefusalReason.CONCURRENCY_LIMIT, "the refusal does not say why")
    expect(not refusal.allowed, "the refusal allows the launch")
    ok("authorize when full", f"402, allowed {refusal.allowed}, {refusal.reason}, {refusal.current} of {refusal.limit}")
    return body.session_id


def launch(profile_id: UUID) -> worker_models.BrowserSession:
    settings = worker_models.BrowserSettings(headless=True)
    body = worker_models.LaunchProfileRequest(profile_id=profile_id, browser=settings)
    launched = unwrap(launch_profile.sync(client=host, body=body)).data
    ok("launch", f"{launched.status}, {'warm' if launched.start.warm else 'cold'}")

    session = unwrap(get_browser_session.sync(launched.id, client=host)).data
    expect(session.launch_id == launched.launch_id and session.end_reason is None, "it is another session, or has ended")
    expect((session.web_socket_debugger_url or "").startswith("ws"), "there is nothing to drive the browser by")
    ok("read the session", f"Chromium {session.browser_version}, debug port {session.debug_port}")
    return session


def provoke(profile_id: UUID) -> None:
    """Sends an invalid request, and reads the details of the error."""
    body = worker_models.LaunchProfileRequest(
        profile_id=profile_id,
        spec=worker_models.LaunchSpec(browser_version=seed.browser_version),
        browser=worker_models.BrowserSettings(timeout_ms=5),
    )
    answer = launch_profile.sync(client=host, body=body)
    if not isinstance(answer, worker_models.ErrorResponse):
        raise SystemExit("FAILED: a launch of a profile and a spec was taken")
    expect(answer.error.code is worker_models.ErrorCode.VALIDATION_ERROR, f"the code is {answer.error.code}")
    details = {detail.field: detail for detail in answer.error.details or []}
    union, bound = details["profileId"], details["browser.timeoutMs"]
    expect(union.code is worker_models.ErrorDetailCode.INVALID_UNION, f"profileId is {union.code}")
    expect(bound.code is worker_models.ErrorDetailCode.TOO_SMALL, f"browser.timeoutMs is {bound.code}")
    limits = bound.constraint
    expect(isinstance(limits, worker_models.ErrorConstraint) and limits.min_ == 1000, f"the bounds are {limits}")
    ok("read a VALIDATION_ERROR", ", ".join(f"{field} {detail.code}" for field, detail in details.items()))


def page_through_profiles(me: svc_cloud.AuthenticatedClient) -> None:
    names: list[str] = []
    more = True
    while more:
        answer = list_profiles.sync(
            client=me,
            page=len(names) + 1,
            limit=1,
            sort_by=cloud_models.ProfileSortField.NAME,
            sort_order=cloud_models.SortDirection.ASC,
        )
        profiles = unwrap(answer).data
        names += [profile.name for profile in profiles.items]
        more = profiles.pagination.has_next
        expect(more or len(names) == profiles.pagination.total, f"{len(names)} of {profiles.pagination.total} came")
    expect(len(names) > 1, "there is only one page")
    ok("page through profiles", f"{len(names)} pages")


def delete(me: svc_cloud.AuthenticatedClient, profile_id: UUID) -> None:
    """Deletes the profile after the worker has reported the end of the session."""
    answer = delete_profile.sync(profile_id, client=me)
    for _ in range(100):
        if not isinstance(answer, cloud_models.ErrorResponse):
            break
        if answer.error.code is not cloud_models.ErrorCode.RESOURCE_CONFLICT:
            break
        time.sleep(0.1)
        answer = delete_profile.sync(profile_id, client=me)
    unwrap(answer)


def end(me: svc_cloud.AuthenticatedClient, session_id: UUID, profile_id: UUID, reservation: UUID) -> None:
    killed = unwrap(kill_browser_session.sync(session_id, client=host)).data
    expect(killed.status is worker_models.SessionStatus.KILLED, f"the session is {killed.status}")
    ok("end the session", f"{killed.status} at {killed.ended_at}")

    body = cloud_models.EndSessionRequest(
        status=cloud_models.EndedStatus.KILLED, end_reason=cloud_models.EndReason.CLIENT_CLOSE
    )
    report = unwrap(end_profile_session.sync(profile_id, reservation, client=fleet, body=body)).data
    expect(report.session_id == reservation, "the report is of another session")
    ok("end the reservation", f"{report.end_reason}, never started")

    delete(me, profile_id)
    gone = get_profile.sync(profile_id, client=me)
    if not isinstance(gone, cloud_models.ErrorResponse):
        raise SystemExit("FAILED: the profile is still there")
    expect(gone.error.code is cloud_models.ErrorCode.RESOURCE_NOT_FOUND, f"the code is {gone.error.code}")
    ok("delete the profile", gone.error.message)

    unwrap(sign_out.sync(client=me))
    after = get_auth_session.sync(client=me)
    if not isinstance(after, cloud_models.ErrorResponse):
        raise SystemExit("FAILED: the token still works")
    ok("sign out", after.error.message)


def main() -> None:
    me = enter()
    profile_id = create(me)
    reservation = authorize(profile_id)
    session = launch(profile_id)
    provoke(profile_id)
    page_through_profiles(me)
    end(me, session.id, profile_id, reservation)


main()
