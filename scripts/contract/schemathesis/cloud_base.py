"""The data, the identities and the common preparation of all requests to the cloud."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from accounts import Accounts
from api_client import ApiClient, ApiError
from fixture import Fixture, GeneratedRequest
from identities import Identity, api_key, bearer_token, metrics_token, session_cookie

_IDEMPOTENCY_KEY = re.compile(r"[\x20-\x7e]{1,255}")


class CloudBase(Fixture):
    """Seeded users send requests for the seeded organization, disposable accounts for their own organizations."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__()
        self._seed = seed
        self._scenario_keys = 0
        self._client = ApiClient.new(seed["cloudUrl"])
        self._owner_client = self._client.with_token(seed["owner"]["token"])
        self._worker_client = self._client.with_key(seed["organizationKey"])
        self._accounts = Accounts(self._client, Path(seed["mailDir"]))
        self._organization_id: str = seed["organizationId"]
        self._seeded_emails = {seed[name]["email"] for name in ("owner", "admin", "member", "otherUser")}
        self._disposable_account = self._accounts.verified()
        self._disposable_organization = self._disposable_account.create_organization()
        self._create_inviter()
        self._sign_out_account = self._accounts.sign_up()  # requests end its sessions
        self._password_account = self._accounts.sign_up()  # requests change its password
        other = self._client.with_token(seed["otherUser"]["token"])
        tenants = [(self._owner_client, self._organization_id), (other, seed["otherUser"]["organizationId"])]
        self._seeded_profiles = {
            profile["id"] for client, _ in tenants for profile in client.call("GET", "/v1/profiles", limit=100)["items"]
        }
        self._shared_profile = self._create_profile()
        self._seeded_keys = {
            key["id"]
            for client, organization in tenants
            for key in client.call("GET", f"/v1/organizations/{organization}/api-keys", limit=100)["items"]
        }
        self._shared_key = self._create_key()
        self._releases = self._worker_client.call("GET", "/v1/chromium/releases")["items"]
        self._identities = self._create_identities()

    def _create_identities(self) -> list[Identity]:
        seed, wrong = self._seed, "x" * 43
        users = [(name, name) for name in ("owner", "admin", "member")] + [("otherUser", None)]
        return [
            Identity("anonymous"),
            Identity("wrong token", headers={"Authorization": f"Bearer {wrong}"}),
            Identity("wrong cookie", cookies={"svc_session": wrong}),
            api_key("wrong key", "svc_" + "a" * 32),
            api_key("revoked key", seed["revokedKey"]),
            api_key("worker key", seed["workerKey"]),
            api_key("organization key", seed["organizationKey"], "organizationKey"),
            api_key("otherUser's key", seed["otherUser"]["organizationKey"], "organizationKey"),
            metrics_token(seed["metricsToken"]),
            *[bearer_token(name, seed[name]["token"], role) for name, role in users],
            *[session_cookie(f"{name}'s cookie", seed[name]["token"], role) for name, role in users],
            api_key("full organization's key", seed["full"]["organizationKey"], "organizationKey"),
        ]

    def identities(self) -> list[Identity]:
        return self._identities

    def scenario_identity(self, case: Any) -> Identity:
        organization_id = (case.path_parameters or {}).get("organizationId")
        if organization_id in self._disposable_account.slugs:
            return self._disposable_account.identity()
        preferred = [
            identity for identity in self._identities if identity.name in ("owner", "organization key", "metrics token")
        ]
        return next((identity for identity in preferred if identity.authorized(case.operation)), self._identities[0])

    def prepare_common(self, request: GeneratedRequest) -> None:
        # Few requests have the same client address, so that the rate limits per address refuse only few requests.
        if request.random_bool(0.97):
            client_address = f"198.18.{request.rng.randrange(256)}.{request.rng.randrange(256)}"
            request.case.headers["X-Forwarded-For"] = client_address
        if request.case.method != "GET":
            self._protect_seeded_data(request)
        if request.in_scenario:
            self._set_unique_idempotency_key(request)
            self._activate_scenario_organization(request)
            return
        if request.random_bool(0.9):
            other = request.identity.name.startswith("otherUser") and request.random_bool(0.5)
            tenant = self._seed["otherUser"] if other else self._seed
            request.set_path_parameters(organizationId=tenant["organizationId"])
            profile_id = tenant["profileId"] if request.case.method == "GET" else self._shared_profile
            request.set_path_parameters(profileId=profile_id)

    def _set_unique_idempotency_key(self, request: GeneratedRequest) -> None:
        """Sets a new key in a scenario, because the key of an earlier scenario would repeat the earlier response."""
        if _IDEMPOTENCY_KEY.fullmatch(str(request.case.headers.get("Idempotency-Key", ""))):
            self._scenario_keys += 1
            request.case.headers["Idempotency-Key"] = f"scenario {self._scenario_keys}"

    def _protect_seeded_data(self, request: GeneratedRequest) -> None:
        """Replaces the ids of seeded data, which a scenario can get from a list or an earlier response."""
        parameters = request.case.path_parameters or {}
        if parameters.get("profileId") in self._seeded_profiles:
            request.set_path_parameters(profileId=self._shared_profile)
        if parameters.get("keyId") in self._seeded_keys:
            request.set_path_parameters(keyId=self._shared_key)

    def _activate_scenario_organization(self, request: GeneratedRequest) -> None:
        """Activates the organization of a scenario, because operations on an organization require the active one."""
        organization_id = (request.case.path_parameters or {}).get("organizationId")
        if organization_id in self._disposable_account.slugs:
            with suppress(ApiError):  # the scenario may have deleted it
                self._disposable_account.client.call("POST", f"/v1/organizations/{organization_id}/activate")

    def _activate_disposable_organization(self) -> None:
        path = f"/v1/organizations/{self._disposable_organization}/activate"
        self._disposable_account.client.call("POST", path)

    def _create_inviter(self) -> None:
        """Creates an account with an organization that can invite members. It replaces the previous one, which requests
        have changed."""
        self._inviter = self._accounts.sign_up()
        self._inviter_organization = self._inviter.create_organization()
        self._inviter.client.call("POST", "/v1/billing/change-plan", {"plan": "enterprise"})  # the plan without limits

    def _ensure_billing(self, step: str, body: object = None) -> None:
        """Sends a billing request of the disposable account. A conflict means that its result exists already."""
        try:
            self._disposable_account.client.call("POST", f"/v1/billing/{step}", body)
        except ApiError as error:
            if error.status != 409:
                raise

    def _create_profile(self) -> str:
        body = {"name": "Disposable", "browserVersion": self._seed["browserVersion"]}
        return str(self._owner_client.call("POST", "/v1/profiles", body)["id"])

    def _create_key(self) -> str:
        path = f"/v1/organizations/{self._organization_id}/api-keys"
        created = self._owner_client.call("POST", path, {"name": "disposable"})
        return str(created["apiKey"]["id"])
