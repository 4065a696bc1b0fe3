"""Preparations of requests about keys, billing, profiles, licenses and browser builds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from cloud_base import CloudBase
from fixture import MAX_LAUNCH_WAIT, GeneratedRequest, operation_id

_ORIGIN = "https://accounts.example.com"
_TOTP_SEED = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
MACHINES = 5  # the number of machine ids in requests
_MACHINE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class ResourceRequests(CloudBase):
    """Keys, billing, profiles, licenses and browser builds of an organization."""

    def resource_preparations(self) -> dict[str, Callable[[GeneratedRequest], None]]:
        return {
            "updateApiKey": self._prepare_key,
            "rotateApiKey": self._prepare_key,
            "revokeApiKey": self._prepare_key,
            "startCheckout": self._prepare_checkout,
            "changePlan": self._prepare_plan_change,
            "cancelSubscription": self._prepare_cancellation,
            "resumeSubscription": self._prepare_resumption,
            "openBillingPortal": self._prepare_billing,
            "addAddOn": self._prepare_add_on,
            "removeAddOn": self._prepare_add_on_removal,
            "deleteProfile": self._prepare_profile_deletion,
            "openProfileData": self._prepare_data_access,
            "addProfileDataVersion": self._prepare_data_save,
            "listProfileDataVersions": self._prepare_data_version,
            "deleteProfileDataVersion": self._prepare_data_version,
            "activateProfileDataVersion": self._prepare_data_version,
            "createServiceAccount": self._prepare_service_account_name,
            "getServiceAccount": self._prepare_service_account,
            "updateServiceAccount": self._prepare_service_account,
            "deleteServiceAccount": self._prepare_service_account,
            "listServiceAccountTokens": self._prepare_service_account,
            "createServiceAccountToken": self._prepare_service_account,
            "revokeServiceAccountToken": self._prepare_service_account,
            "createSecret": self._prepare_secret_values,
            "getSecret": self._prepare_secret,
            "updateSecret": self._prepare_secret,
            "deleteSecret": self._prepare_secret,
            "useSecret": self._prepare_secret_use,
            "getWebhookEndpoint": self._prepare_endpoint,
            "updateWebhookEndpoint": self._prepare_endpoint,
            "deleteWebhookEndpoint": self._prepare_endpoint,
            "createWebhookEndpoint": self._prepare_endpoint_creation,
            "rotateWebhookSecret": self._prepare_endpoint,
            "sendTestEvent": self._prepare_endpoint,
            "listWebhookDeliveries": self._prepare_endpoint,
            "sendWebhookDelivery": self._prepare_delivery,
            "receiveEvents": self._prepare_stream,
            "updateMachine": self._prepare_machine,
            "deleteMachine": self._prepare_machine,
            "authorizeLaunch": self._prepare_authorize,
            "heartbeatLicenseSessions": self._set_machine_id,
            "startProfileSession": self._prepare_session_start,
            "endProfileSession": self._prepare_profile_session_end,
            "getLicenseSlot": self._prepare_slot,
            "getSession": self._prepare_session,
            "downloadChromiumRelease": self._prepare_release,
            "getChromiumReleaseHeaders": self._prepare_release,
        }

    # Keys

    def _prepare_key(self, request: GeneratedRequest) -> None:
        if request.in_scenario:
            return
        if not request.authorized or operation_id(request.case) == "updateApiKey":
            request.set_path_parameters(keyId=self._shared_key)
        elif request.random_bool(0.8):  # the request would revoke the shared key
            request.set_path_parameters(keyId=self._create_key())

    # Service accounts

    def _prepare_service_account_name(self, request: GeneratedRequest) -> None:
        if isinstance(request.case.body, dict) and "name" in request.case.body and request.random_bool(0.8):
            request.set_body_fields(name=f"account-{uuid4()}")

    def _prepare_service_account(self, request: GeneratedRequest) -> None:
        """Uses a new account with a token, after deleting those of earlier requests, because their number is limited."""
        if not request.authorized or request.in_scenario or not request.random_bool(0.8):
            return
        accounts = f"/v1/organizations/{self._seed['organizationId']}/service-accounts"
        for account in self._owner_client.call("GET", accounts, limit=100)["items"]:
            self._owner_client.call("DELETE", f"{accounts}/{account['id']}")
        scopes = ["profiles:write", "sessions:read", "keys:write", "members:write", "billing:read"]
        body = {"name": f"account-{uuid4()}", "scopes": scopes}
        account_id = self._owner_client.call("POST", accounts, body)["id"]
        token = {"name": "contract", "scopes": ["profiles:read"]}
        created = self._owner_client.call("POST", f"{accounts}/{account_id}/tokens", token)
        request.set_path_parameters(serviceAccountId=account_id)
        if operation_id(request.case) == "revokeServiceAccountToken":
            request.set_path_parameters(tokenId=created["accessToken"]["id"])
        elif operation_id(request.case) == "updateServiceAccount":
            self._prepare_service_account_name(request)

    # Billing

    def _prepare_billing(self, request: GeneratedRequest) -> None:
        if request.authorized:
            self._activate_disposable_organization()
            request.identity = self._disposable_account.identity(request.identity)

    def _prepare_plan_change(self, request: GeneratedRequest) -> None:
        self._prepare_billing(request)
        if request.random_bool(0.8):
            request.set_body_fields(plan=request.rng.choice(["free", "starter", "team", "scale", "enterprise"]))

    def _prepare_checkout(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.3):
            # A new organization has no subscription.
            self._disposable_organization = self._disposable_account.create_organization()
        self._prepare_plan_change(request)

    def _prepare_cancellation(self, request: GeneratedRequest) -> None:
        self._prepare_billing(request)
        if request.authorized and request.random_bool(0.8):
            self._ensure_billing("change-plan", {"plan": request.rng.choice(["starter", "scale"])})

    def _prepare_resumption(self, request: GeneratedRequest) -> None:
        self._prepare_cancellation(request)
        if request.authorized and request.random_bool(0.8):
            self._ensure_billing("cancel")

    def _prepare_add_on(self, request: GeneratedRequest) -> None:
        self._prepare_cancellation(request)
        if request.authorized and request.random_bool(0.8):
            add_ons = self._disposable_account.client.call("GET", "/v1/billing/add-ons")["items"]
            if add_ons:
                request.set_body_fields(addOn=request.rng.choice(add_ons)["slug"])

    def _prepare_add_on_removal(self, request: GeneratedRequest) -> None:
        self._prepare_cancellation(request)
        if not request.authorized:
            return
        client = self._disposable_account.client
        for add_on in client.call("GET", "/v1/billing/add-ons")["items"][:1]:
            self._ensure_billing("add-ons", {"addOn": add_on["slug"], "quantity": 1})
        for subscribed in client.call("GET", "/v1/billing/subscription")["addOns"]:
            request.set_path_parameters(addOnId=subscribed["id"])

    # Profiles and licenses

    def _prepare_profile_deletion(self, request: GeneratedRequest) -> None:
        if request.authorized and not request.in_scenario:
            request.set_path_parameters(profileId=self._create_profile())

    def _lease_data(self) -> tuple[str, dict[str, Any]]:
        """Creates a profile, and a session with the lease of its data."""
        profile_id = self._create_profile()
        machine = {"machineId": "contract-0", "bootId": str(uuid4()), "sessionId": str(uuid4())}
        self._worker_client.call("POST", "/v1/license/authorize", {**machine, "profileId": profile_id})
        session = {"sessionId": machine["sessionId"], "machineId": "contract-0"}
        self._worker_client.call("POST", f"/v1/profiles/{profile_id}/data/lease", session)
        return profile_id, session

    def _prepare_data_access(self, request: GeneratedRequest) -> None:
        body = request.case.body
        if request.authorized and request.random_bool(0.8) and not request.in_scenario and isinstance(body, dict):
            profile_id, session = self._lease_data()
            request.set_path_parameters(profileId=profile_id)
            request.set_body_fields(**{name: session[name] for name in session.keys() & body.keys()})

    def _prepare_data_save(self, request: GeneratedRequest) -> None:
        self._prepare_data_access(request)
        body = request.case.body
        if isinstance(body, dict) and "previousVersionId" in body and request.random_bool(0.8):
            request.set_body_fields(previousVersionId=None)

    def _prepare_data_version(self, request: GeneratedRequest) -> None:
        if not request.authorized or request.in_scenario or not request.random_bool(0.8):
            return
        profile_id, session = self._lease_data()
        version_id = str(uuid4())
        version = {"id": version_id, "previousVersionId": None, "sizeBytes": 7, "sentBytes": 5, "keepVersions": 3}
        self._worker_client.call("POST", f"/v1/profiles/{profile_id}/data/versions", {**session, **version})
        self._worker_client.call("DELETE", f"/v1/profiles/{profile_id}/sessions/{session['sessionId']}")
        request.set_path_parameters(profileId=profile_id, versionId=version_id)

    # Secrets

    def _prepare_secret_values(self, request: GeneratedRequest) -> None:
        body = request.case.body
        if isinstance(body, dict) and request.random_bool(0.8):
            valid = {"name": f"secret-{uuid4()}", "origins": [_ORIGIN], "totpSeed": _TOTP_SEED, "profileIds": None}
            request.set_body_fields(**{name: valid[name] for name in valid.keys() & body.keys()})

    def _create_secret(self) -> str:
        """Creates a secret after deleting those of earlier requests, because an organization has a limit."""
        for secret in self._owner_client.call("GET", "/v1/secrets", limit=100)["items"]:
            self._owner_client.call("DELETE", f"/v1/secrets/{secret['id']}")
        body = {"name": f"secret-{uuid4()}", "username": "robot", "password": "x", "totpSeed": _TOTP_SEED}
        return self._owner_client.call("POST", "/v1/secrets", {**body, "origins": [_ORIGIN]})["id"]

    def _prepare_secret(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.8) and not request.in_scenario:
            request.set_path_parameters(secretId=self._create_secret())
        self._prepare_secret_values(request)

    def _prepare_secret_use(self, request: GeneratedRequest) -> None:
        body = request.case.body
        if request.authorized and request.random_bool(0.8) and not request.in_scenario and isinstance(body, dict):
            request.set_path_parameters(secretId=self._create_secret())
            valid = {"sessionId": self._start_session(), "origin": _ORIGIN}
            request.set_body_fields(**{name: valid[name] for name in valid.keys() & body.keys()})

    def _create_endpoint(self) -> str:
        """Returns an endpoint of its own, in an organization that has few."""
        for endpoint in self._owner_client.call("GET", "/v1/webhooks/endpoints", limit=100)["items"][10:]:
            self._owner_client.call("DELETE", f"/v1/webhooks/endpoints/{endpoint['id']}")
        created = self._owner_client.call("POST", "/v1/webhooks/endpoints", {"url": "https://127.0.0.1:1/"})
        return str(created["endpoint"]["id"])

    def _prepare_endpoint_creation(self, request: GeneratedRequest) -> None:
        if request.authorized and not request.in_scenario:
            self._create_endpoint()  # deletes earlier ones

    def _prepare_endpoint(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.8) and not request.in_scenario:
            request.set_path_parameters(endpointId=self._create_endpoint())

    def _prepare_delivery(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.8) and not request.in_scenario:
            endpoint_id = self._create_endpoint()
            delivery = self._owner_client.call("POST", f"/v1/webhooks/endpoints/{endpoint_id}/test")
            request.set_path_parameters(endpointId=endpoint_id, deliveryId=str(delivery["id"]))

    @staticmethod
    def _prepare_stream(request: GeneratedRequest) -> None:
        """Shortens the stream, which ends later than the timeout of the client."""
        if "waitSeconds" not in (request.case.query or {}):
            request.case.query = {**(request.case.query or {}), "waitSeconds": "1"}
        request.shorten_wait(300)

    def _prepare_machine(self, request: GeneratedRequest) -> None:
        """Uses a machine of earlier authorizations: it is online and may have slots, so a deletion is refused."""
        if request.authorized and request.random_bool(0.8) and not request.in_scenario:
            self._authorize_session()
            request.set_path_parameters(machineId="contract-0")

    def _set_machine_id(self, request: GeneratedRequest) -> None:
        """Replaces a valid machine id. With the id of the running worker, the request would end its sessions."""
        machine_id = request.case.body.get("machineId") if isinstance(request.case.body, dict) else None
        if isinstance(machine_id, str) and _MACHINE_ID.fullmatch(machine_id):
            request.set_body_fields(machineId=f"contract-{request.rng.randrange(MACHINES)}")

    def _prepare_authorize(self, request: GeneratedRequest) -> None:
        self._set_machine_id(request)
        request.shorten_wait(MAX_LAUNCH_WAIT)
        body = request.case.body
        if isinstance(body, dict) and "profileId" in body and request.random_bool(0.8):
            request.set_body_fields(profileId=self._shared_profile)

    def _authorize_session(self) -> dict[str, Any]:
        """Authorizes a launch of the shared profile. Returns the ids of the machine, the session and the slot."""
        machine = {"machineId": "contract-0", "bootId": str(uuid4()), "sessionId": str(uuid4())}
        body = {**machine, "profileId": self._shared_profile}
        authorization = self._worker_client.call("POST", "/v1/license/authorize", body)
        return {**machine, "slotId": authorization["slotId"]}

    def _prepare_session_start(self, request: GeneratedRequest) -> None:
        self._set_machine_id(request)
        body = request.case.body
        if request.authorized and request.random_bool(0.6) and not request.in_scenario and isinstance(body, dict):
            session = self._authorize_session()
            request.set_body_fields(**{name: session[name] for name in session.keys() & body.keys()})

    def _prepare_profile_session_end(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.8) and not request.in_scenario:
            session_id = self._authorize_session()["sessionId"]
            request.set_path_parameters(profileId=self._shared_profile, sessionId=session_id)

    def _prepare_slot(self, request: GeneratedRequest) -> None:
        if request.random_bool(0.8) and not request.in_scenario:
            request.set_path_parameters(slotId=self._authorize_session()["slotId"])

    def _prepare_session(self, request: GeneratedRequest) -> None:
        if request.random_bool(0.8) and not request.in_scenario:
            session_id = self._start_session()
            self._worker_client.call("DELETE", f"/v1/profiles/{self._shared_profile}/sessions/{session_id}")
            request.set_path_parameters(sessionId=session_id)

    def _start_session(self) -> str:
        """Starts a session of the shared profile. Returns its id."""
        session = self._authorize_session()
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        start = {"seq": 1, "launchId": str(uuid4()), "browserVersion": 156, "startedAt": now}
        self._worker_client.call("POST", f"/v1/profiles/{self._shared_profile}/sessions", {**session, **start})
        return session["sessionId"]

    def _prepare_release(self, request: GeneratedRequest) -> None:
        if self._releases and request.random_bool(0.7) and not request.in_scenario:
            release = request.rng.choice(self._releases)
            if request.case.query.get("os") and request.case.query.get("arch"):
                request.set_query_parameters(os=release["os"], arch=release["arch"])
            if "version" in (request.case.path_parameters or {}):
                request.case.path_parameters = {**request.case.path_parameters, "version": release["version"]}
