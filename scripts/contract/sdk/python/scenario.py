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
anonymous = svc_cloud.Client(base_url=seed.cloud_url, timeout=timeout)


def organization_client(key: str) -> svc_cloud.AuthenticatedClient:
    """A client of the cloud with the key of an organization, as a worker uses it."""
    return svc_cloud.AuthenticatedClient(
        base_url=seed.cloud_url, token=key, prefix="", auth_header_name="X-API-Key", timeout=timeout
    )


organization_cloud = organization_client(seed.organization_key)
full_organization_cloud = organization_client(seed.full_key)
worker = svc_worker.AuthenticatedClient(
    base_url=seed.worker_url, token=seed.worker_key, prefix="", auth_header_name="X-API-Key", timeout=timeout
)
T = TypeVar("T")


def unwrap(response: T | cloud_models.ErrorResponse | worker_models.ErrorResponse | None) -> T:
    """Returns the response, or exits with the code of the error."""
    if isinstance(response, cloud_models.ErrorResponse | worker_models.ErrorResponse):
        raise SystemExit(f"FAILED: {response.error.code}: {response.error.message}")
    if response is None:
        raise SystemExit("FAILED: the response is not documented")
    return response


def sign_in_and_activate() -> svc_cloud.AuthenticatedClient:
    """Signs in, and returns a client with the session of the user."""
    body = cloud_models.SignInRequest(email=seed.email, password=seed.password)
    session = unwrap(sign_in.sync(client=anonymous, body=body)).data
    ok("sign in", f"{session.user.email}, until {session.expires_at:%Y-%m-%d}")
    user = svc_cloud.AuthenticatedClient(base_url=seed.cloud_url, token=session.token, timeout=timeout)

    organization = unwrap(activate_organization.sync(UUID(seed.organization_id), client=user)).data
    expect(organization.active, "the organization is not active")
    ok("activate organization", f"{organization.name}, as its {organization.role}")
    return user


def create(user: svc_cloud.AuthenticatedClient) -> UUID:
    body = cloud_models.CreateProfileRequest(
        name="Checkout in German",
        browser_version=seed.browser_version,
        os=cloud_models.OperatingSystem.LINUX,
        locale="de-DE",
        timezone_id="Europe/Berlin",
        viewport=cloud_models.ScreenSize(width=1280, height=720),
    )
    profile = unwrap(create_profile.sync(client=user, body=body)).data
    expect(profile.os is cloud_models.OperatingSystem.LINUX, "the profile does not have the requested settings")
    expect(profile.viewport is not None and profile.viewport.width == 1280, "the profile has another viewport")
    expect(profile.proxy is None, "the profile has a proxy")
    ok("create a profile", f"{profile.name}, version {profile.version}")
    return profile.id


def authorize(profile_id: UUID) -> UUID:
    """Reserves a slot, as a worker does before it launches."""
    body = cloud_models.AuthorizeRequest(machine_id="sdk", boot_id=uuid4(), session_id=uuid4(), profile_id=profile_id)
    authorization = unwrap(authorize_launch.sync(client=organization_cloud, body=body)).data
    config = authorization.profile_config
    expect(authorization.allowed, "the launch is not allowed")
    expect(isinstance(config, cloud_models.ProfileConfig) and config.locale == "de-DE", "the launch has other settings")
    ok("authorize", f"allowed, {authorization.current} of {authorization.limit or 'unlimited'}")

    # A refusal has status 402 and the envelope of a success.
    body.profile_id = UUID(seed.full_profile_id)
    response = authorize_launch.sync_detailed(client=full_organization_cloud, body=body)
    refusal = unwrap(response.parsed).data
    expect(response.status_code == 402, f"the full organization got {response.status_code}, not 402")
    expect(refusal.reason is cloud_models.RefusalReason.CONCURRENCY_LIMIT, "the refusal has another reason")
    expect(not refusal.allowed, "the refusal allows the launch")
    ok("authorize when full", f"402, allowed {refusal.allowed}, {refusal.reason}, {refusal.current} of {refusal.limit}")
    return body.session_id


def launch(profile_id: UUID) -> worker_models.BrowserSession:
    settings = worker_models.BrowserSettings(headless=True)
    body = worker_models.LaunchProfileRequest(profile_id=profile_id, browser=settings)
    launched = unwrap(launch_profile.sync(client=worker, body=body)).data
    ok("launch", f"{launched.status}, {'warm' if launched.start.warm else 'cold'}")

    session = unwrap(get_browser_session.sync(launched.id, client=worker)).data
    expect(session.launch_id == launched.launch_id and session.end_reason is None, "it is another session, or has ended")
    expect((session.web_socket_debugger_url or "").startswith("ws"), "the session has no WebSocket URL")
    ok("read the session", f"Chromium {session.browser_version}, debug port {session.debug_port}")
    return session


def launch_invalid(profile_id: UUID) -> None:
    """Sends an invalid request, and reads the details of the error."""
    body = worker_models.LaunchProfileRequest(
        profile_id=profile_id,
        spec=worker_models.LaunchSpec(browser_version=seed.browser_version),
        browser=worker_models.BrowserSettings(timeout_ms=5),
    )
    response = launch_profile.sync(client=worker, body=body)
    if not isinstance(response, worker_models.ErrorResponse):
        raise SystemExit("FAILED: a launch of a profile and a spec was accepted")
    expect(response.error.code is worker_models.ErrorCode.VALIDATION_ERROR, f"the code is {response.error.code}")
    details = {detail.field: detail for detail in response.error.details or []}
    union, bound = details["profileId"], details["browser.timeoutMs"]
    expect(union.code is worker_models.ErrorDetailCode.INVALID_UNION, f"profileId is {union.code}")
    expect(bound.code is worker_models.ErrorDetailCode.TOO_SMALL, f"browser.timeoutMs is {bound.code}")
    limits = bound.constraint
    expect(isinstance(limits, worker_models.ErrorConstraint) and limits.min_ == 1000, f"the bounds are {limits}")
    ok("read a VALIDATION_ERROR", ", ".join(f"{field} {detail.code}" for field, detail in details.items()))


def page_through_profiles(user: svc_cloud.AuthenticatedClient) -> None:
    names: list[str] = []
    more = True
    while more:
        response = list_profiles.sync(
            client=user,
            page=len(names) + 1,
            limit=1,
            sort_by=cloud_models.ProfileSortField.NAME,
            sort_order=cloud_models.SortDirection.ASC,
        )
        profiles = unwrap(response).data
        names += [profile.name for profile in profiles.items]
        more = profiles.pagination.has_next
        total = profiles.pagination.total
        expect(more or len(names) == total, f"{len(names)} of {total} profiles were listed")
    expect(len(names) > 1, "there is only one page")
    ok("page through profiles", f"{len(names)} pages")


def delete(user: svc_cloud.AuthenticatedClient, profile_id: UUID) -> None:
    """Deletes the profile after the worker has reported the end of the session."""
    response = delete_profile.sync(profile_id, client=user)
    for _ in range(100):
        if not isinstance(response, cloud_models.ErrorResponse):
            break
        if response.error.code is not cloud_models.ErrorCode.RESOURCE_CONFLICT:
            break
        time.sleep(0.1)
        response = delete_profile.sync(profile_id, client=user)
    unwrap(response)


def end(user: svc_cloud.AuthenticatedClient, session_id: UUID, profile_id: UUID, reservation: UUID) -> None:
    killed = unwrap(kill_browser_session.sync(session_id, client=worker)).data
    expect(killed.status is worker_models.SessionStatus.KILLED, f"the session is {killed.status}")
    ok("end the session", f"{killed.status} at {killed.ended_at}")

    body = cloud_models.EndSessionRequest(
        status=cloud_models.EndedStatus.KILLED, end_reason=cloud_models.EndReason.CLIENT_CLOSE
    )
    report = unwrap(end_profile_session.sync(profile_id, reservation, client=organization_cloud, body=body)).data
    expect(report.session_id == reservation, "the report is of another session")
    ok("end the reservation", f"{report.end_reason}, never started")

    delete(user, profile_id)
    deleted = get_profile.sync(profile_id, client=user)
    if not isinstance(deleted, cloud_models.ErrorResponse):
        raise SystemExit("FAILED: the profile is still there")
    expect(deleted.error.code is cloud_models.ErrorCode.RESOURCE_NOT_FOUND, f"the code is {deleted.error.code}")
    ok("delete the profile", deleted.error.message)

    unwrap(sign_out.sync(client=user))
    signed_out = get_auth_session.sync(client=user)
    if not isinstance(signed_out, cloud_models.ErrorResponse):
        raise SystemExit("FAILED: the token still works")
    ok("sign out", signed_out.error.message)


def main() -> None:
    user = sign_in_and_activate()
    profile_id = create(user)
    reservation = authorize(profile_id)
    session = launch(profile_id)
    launch_invalid(profile_id)
    page_through_profiles(user)
    end(user, session.id, profile_id, reservation)


main()
