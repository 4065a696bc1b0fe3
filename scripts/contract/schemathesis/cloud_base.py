"""What all requests to the cloud share: who sends them, and what is there for them."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from accounts import Accounts
from api import Api, Refused
from identities import Identity, bearer, cookie, key, metrics
from surface import Call, Surface

_IDEMPOTENCY_KEY = re.compile(r"[\x20-\x7e]{1,255}")


class CloudBase(Surface):
    """Seeded users act on the seeded organization; `sacrifice` on organizations of its own."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__()
        self._seed = seed
        self._scenario_keys = 0
        self._api = Api.at(seed["cloudUrl"])
        self._owner = self._api.bearing(seed["owner"]["token"])
        self._workers = self._api.keyed(seed["organizationKey"])
        self._accounts = Accounts(self._api, Path(seed["mailDir"]))
        self._organization: str = seed["organizationId"]
        self._users = {seed[name]["email"] for name in ("owner", "admin", "member", "otherUser")}
        self._victim = self._accounts.verified()
        self._home = self._victim.organization()
        self._found_club()
        self._leaver = self._accounts.new()  # whose sessions are ended
        self._changer = self._accounts.new()  # whose password is changed
        other = self._api.bearing(seed["otherUser"]["token"])
        tenants = [(self._owner, self._organization), (other, seed["otherUser"]["organizationId"])]
        self._seeded_profiles = {
            one["id"] for user, _ in tenants for one in user.call("GET", "/v1/profiles", limit=100)["items"]
        }
        self._kept_profile = self._profile()
        self._seeded_keys = {
            one["id"]
            for user, organization in tenants
            for one in user.call("GET", f"/v1/organizations/{organization}/api-keys", limit=100)["items"]
        }
        self._kept_key = self._key()
        self._releases = self._workers.call("GET", "/v1/chromium/releases")["items"]
        self._identities = self._all_identities()

    def _all_identities(self) -> list[Identity]:
        seed, wrong = self._seed, "x" * 43
        users = [(name, name) for name in ("owner", "admin", "member")] + [("otherUser", None)]
        return [
            Identity("nobody"),
            Identity("wrong token", headers={"Authorization": f"Bearer {wrong}"}),
            Identity("wrong cookie", cookies={"svc_session": wrong}),
            key("wrong key", "svc_" + "a" * 32),
            key("revoked key", seed["revokedKey"]),
            key("worker key", seed["workerKey"]),
            key("organization key", seed["organizationKey"], "organizationKey"),
            key("otherUser's key", seed["otherUser"]["organizationKey"], "organizationKey"),
            metrics(seed["metricsToken"]),
            *[bearer(name, seed[name]["token"], role) for name, role in users],
            *[cookie(f"{name}'s cookie", seed[name]["token"], role) for name, role in users],
            *[key("full key", seed[name]["organizationKey"], "organizationKey") for name in ("full",) if name in seed],
        ]

    def identities(self) -> list[Identity]:
        return self._identities

    def steady(self, case: Any) -> Identity:
        named = (case.path_parameters or {}).get("organizationId")
        if named in self._victim.organizations:
            return self._victim.identity()
        wanted = [one for one in self._identities if one.name in ("owner", "organization key", "metrics token")]
        return next((one for one in wanted if one.allowed(case.operation)), self._identities[0])

    def before_all(self, call: Call) -> None:
        # The limits by address are met now and then, and otherwise stay out of the way.
        if call.odds(0.97):
            call.case.headers["X-Forwarded-For"] = f"198.18.{call.chance.randrange(256)}.{call.chance.randrange(256)}"
        if call.case.method != "GET":
            self._shield(call)
        if call.linked:
            self._own_key(call)
            self._activate_own(call)
            return
        if call.odds(0.9):
            other = call.identity.name.startswith("otherUser") and call.odds(0.5)
            own = self._seed["otherUser"] if other else self._seed
            call.aim(organizationId=own["organizationId"])
            call.aim(profileId=own["profileId"] if call.case.method == "GET" else self._kept_profile)

    def _own_key(self, call: Call) -> None:
        """Keeps what a scenario makes its own: by the key of one before, it would get that one's answer again."""
        if _IDEMPOTENCY_KEY.fullmatch(str(call.case.headers.get("Idempotency-Key", ""))):
            self._scenario_keys += 1
            call.case.headers["Idempotency-Key"] = f"scenario {self._scenario_keys}"

    def _shield(self, call: Call) -> None:
        """Turns away from the seeded things what came by their ids, from a list or an earlier answer."""
        parameters = call.case.path_parameters or {}
        if parameters.get("profileId") in self._seeded_profiles:
            call.aim(profileId=self._kept_profile)
        if parameters.get("keyId") in self._seeded_keys:
            call.aim(keyId=self._kept_key)

    def _activate_own(self, call: Call) -> None:
        """Activates what a scenario created: the operations on an organization act on the active one."""
        named = (call.case.path_parameters or {}).get("organizationId")
        if named in self._victim.organizations:
            with suppress(Refused):  # deleted already
                self._victim.api.call("POST", f"/v1/organizations/{named}/activate")

    def _activate_home(self) -> None:
        self._victim.api.call("POST", f"/v1/organizations/{self._home}/activate")

    def _found_club(self) -> None:
        """A new host with an organization that others may join; what its members have done to the last is over."""
        self._host = self._accounts.new()
        self._club = self._host.organization()
        self._host.api.call("POST", "/v1/billing/change-plan", {"plan": "enterprise"})  # the one without limits

    def _try(self, step: str, body: object = None) -> None:
        """A step towards what a request needs, which may have been taken already."""
        try:
            self._victim.api.call("POST", f"/v1/billing/{step}", body)
        except Refused as refusal:
            if refusal.status != 409:
                raise

    def _profile(self) -> str:
        body = {"name": "Sacrifice", "browserVersion": self._seed["browserVersion"]}
        return str(self._owner.call("POST", "/v1/profiles", body)["id"])

    def _key(self) -> str:
        made = self._owner.call("POST", f"/v1/organizations/{self._organization}/api-keys", {"name": "sacrifice"})
        return str(made["apiKey"]["id"])
