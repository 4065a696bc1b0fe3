"""What requests to the cloud need: the ids of real things, and something of their own wherever they do harm."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from api import Refused
from cloud_people import People
from cloud_usage import MACHINES, Usage
from surface import operation_id


class Cloud(People, Usage):
    """The cloud API."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__(seed)
        self.preparations = self.people() | self.usage()

    def settle(self, case: Any, response: Any) -> None:
        operation, status = operation_id(case), response.status_code
        sacrificed = case.headers.get("X-Contract-As") == "sacrifice"
        if operation == "createOrganization" and status == 201 and sacrificed:
            made = response.json()["data"]
            self._victim.organizations[made["id"]] = made["slug"]
            self._activate_home()
        elif operation == "changePassword" and sacrificed and status in (200, 429):
            self._changer = self._accounts.new()
        elif operation in ("updateMember", "deleteMember") and sacrificed and status == 200:
            named = case.path_parameters["memberId"]
            if named != self._host.user or case.method == "DELETE":
                self._found_club()

    def finish(self) -> None:
        """Removes the profiles that were made: whoever pages through the list next would have thousands of pages."""
        for number in range(MACHINES):  # live sessions would keep their profiles
            report = {"machineId": f"contract-{number}", "bootId": str(uuid4()), "seq": 0, "sessions": []}
            self._workers.call("POST", "/v1/license/sessions/heartbeat", report)
        page = 1
        while listed := self._owner.call("GET", "/v1/profiles", limit=100, page=page)["items"]:
            kept = [profile for profile in listed if not self._removed(profile["id"])]
            page += len(kept) == len(listed)

    def _removed(self, profile: str) -> bool:
        if profile in self._seeded_profiles:
            return False
        try:
            self._owner.call("DELETE", f"/v1/profiles/{profile}")
        except Refused:
            return False
        return True
