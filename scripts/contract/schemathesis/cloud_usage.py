"""What requests about keys, billing, profiles, licenses and builds need."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from cloud_base import CloudBase
from surface import Call, operation_id

MACHINES = 5  # that requests speak for
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Usage(CloudBase):
    """What an organization has, pays for and runs."""

    def usage(self) -> dict[str, Callable[[Call], None]]:
        return {
            "updateApiKey": self._one_key,
            "rotateApiKey": self._one_key,
            "revokeApiKey": self._one_key,
            "startCheckout": self._checkout,
            "changePlan": self._plan,
            "cancelSubscription": self._cancel,
            "resumeSubscription": self._resume,
            "openBillingPortal": self._bill,
            "addAddOn": self._add_on,
            "removeAddOn": self._remove_add_on,
            "deleteProfile": self._delete_profile,
            "openProfileData": self._open_data,
            "addProfileDataVersion": self._add_data,
            "listProfileDataVersions": self._data,
            "deleteProfileDataVersion": self._data,
            "activateProfileDataVersion": self._data,
            "authorizeLaunch": self._authorize,
            "heartbeatLicenseSessions": self._machine,
            "startProfileSession": self._start,
            "endProfileSession": self._end,
            "getLicenseSlot": self._slot,
            "getSession": self._session,
            "downloadChromiumRelease": self._release,
            "getChromiumReleaseHeaders": self._release,
        }

    # Keys

    def _one_key(self, call: Call) -> None:
        if call.linked:
            return
        if not call.works or operation_id(call.case) == "updateApiKey":
            call.aim(keyId=self._kept_key)
        elif call.odds(0.8):  # the kept one would be spent
            call.aim(keyId=self._key())

    # Billing

    def _bill(self, call: Call) -> None:
        if call.works:
            self._activate_home()
            call.identity = self._victim.identity(call.identity)

    def _plan(self, call: Call) -> None:
        self._bill(call)
        if call.odds(0.8):
            call.fill(plan=call.chance.choice(["free", "starter", "team", "scale", "enterprise"]))

    def _checkout(self, call: Call) -> None:
        if call.works and call.odds(0.3):
            self._home = self._victim.organization()  # which has no subscription yet
        self._plan(call)

    def _cancel(self, call: Call) -> None:
        self._bill(call)
        if call.works and call.odds(0.8):
            self._try("change-plan", {"plan": call.chance.choice(["starter", "scale"])})

    def _resume(self, call: Call) -> None:
        self._cancel(call)
        if call.works and call.odds(0.8):
            self._try("cancel")

    def _add_on(self, call: Call) -> None:
        self._cancel(call)
        if call.works and call.odds(0.8):
            offered = self._victim.api.call("GET", "/v1/billing/add-ons")["items"]
            if offered:
                call.fill(addOn=call.chance.choice(offered)["slug"])

    def _remove_add_on(self, call: Call) -> None:
        self._cancel(call)
        if not call.works:
            return
        for offered in self._victim.api.call("GET", "/v1/billing/add-ons")["items"][:1]:
            self._try("add-ons", {"addOn": offered["slug"], "quantity": 1})
        for held in self._victim.api.call("GET", "/v1/billing/subscription")["addOns"]:
            call.aim(addOnId=held["id"])

    # Profiles and licenses

    def _delete_profile(self, call: Call) -> None:
        if call.works and not call.linked:
            call.aim(profileId=self._profile())

    def _leased_data(self) -> tuple[str, dict[str, Any]]:
        """A profile, and a session that may save its data."""
        profile = self._profile()
        machine = {"machineId": "contract-0", "bootId": str(uuid4()), "sessionId": str(uuid4())}
        self._workers.call("POST", "/v1/license/authorize", {**machine, "profileId": profile})
        session = {"sessionId": machine["sessionId"], "machineId": "contract-0"}
        self._workers.call("POST", f"/v1/profiles/{profile}/data/lease", session)
        return profile, session

    def _open_data(self, call: Call) -> None:
        if call.works and call.odds(0.8) and not call.linked and isinstance(call.case.body, dict):
            profile, session = self._leased_data()
            call.aim(profileId=profile)
            call.fill(**{name: session[name] for name in session.keys() & call.case.body.keys()})

    def _add_data(self, call: Call) -> None:
        self._open_data(call)
        if isinstance(call.case.body, dict) and "previousVersionId" in call.case.body and call.odds(0.8):
            call.fill(previousVersionId=None)

    def _data(self, call: Call) -> None:
        if not call.works or call.linked or not call.odds(0.8):
            return
        profile, session = self._leased_data()
        version = {"id": str(uuid4()), "previousVersionId": None, "sizeBytes": 7, "sentBytes": 5, "keepVersions": 3}
        self._workers.call("POST", f"/v1/profiles/{profile}/data/versions", {**session, **version})
        self._workers.call("DELETE", f"/v1/profiles/{profile}/sessions/{session['sessionId']}")
        call.aim(profileId=profile, versionId=version["id"])

    def _machine(self, call: Call) -> None:
        # Whoever speaks for the house's own worker would end its sessions.
        named = call.case.body.get("machineId") if isinstance(call.case.body, dict) else None
        if isinstance(named, str) and _MACHINE.fullmatch(named):
            call.fill(machineId=f"contract-{call.chance.randrange(MACHINES)}")

    def _authorize(self, call: Call) -> None:
        self._machine(call)
        if isinstance(call.case.body, dict) and "profileId" in call.case.body and call.odds(0.8):
            call.fill(profileId=self._kept_profile)

    def _granted(self) -> dict[str, Any]:
        machine = {"machineId": "contract-0", "bootId": str(uuid4()), "sessionId": str(uuid4())}
        answer = self._workers.call("POST", "/v1/license/authorize", {**machine, "profileId": self._kept_profile})
        return {**machine, "slotId": answer["slotId"]}

    def _start(self, call: Call) -> None:
        self._machine(call)
        if call.works and call.odds(0.6) and not call.linked and isinstance(call.case.body, dict):
            granted = self._granted()
            call.fill(**{name: granted[name] for name in granted.keys() & call.case.body.keys()})

    def _end(self, call: Call) -> None:
        if call.works and call.odds(0.8) and not call.linked:
            call.aim(profileId=self._kept_profile, sessionId=self._granted()["sessionId"])

    def _slot(self, call: Call) -> None:
        if call.odds(0.8) and not call.linked:
            call.aim(slotId=self._granted()["slotId"])

    def _session(self, call: Call) -> None:
        if call.odds(0.8) and not call.linked:
            granted = self._granted()
            sessions = f"/v1/profiles/{self._kept_profile}/sessions"
            now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
            started = {"seq": 1, "launchId": str(uuid4()), "browserVersion": 156, "startedAt": now}
            self._workers.call("POST", sessions, {**granted, **started})
            self._workers.call("DELETE", f"{sessions}/{granted['sessionId']}")
            call.aim(sessionId=granted["sessionId"])

    def _release(self, call: Call) -> None:
        if self._releases and call.odds(0.7) and not call.linked:
            build = call.chance.choice(self._releases)
            if call.case.query.get("os") and call.case.query.get("arch"):
                call.ask(os=build["os"], arch=build["arch"])
            if "version" in (call.case.path_parameters or {}):
                call.case.path_parameters = {**call.case.path_parameters, "version": build["version"]}
