"""The fixture of the cloud. Requests that would damage seeded data get disposable data."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from api_client import ApiError
from cloud_accounts import AccountRequests
from cloud_resources import MACHINES, ResourceRequests
from fixture import operation_id
from identities import DISPOSABLE, IDENTITY_HEADER


class CloudFixture(AccountRequests, ResourceRequests):
    """Prepares the requests to the cloud."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__(seed)
        self.preparations = self.account_preparations() | self.resource_preparations()

    def restore(self, case: Any, response: Any) -> None:
        operation, status = operation_id(case), response.status_code
        disposable = case.headers.get(IDENTITY_HEADER) == DISPOSABLE
        if operation == "createOrganization" and status == 201 and disposable:
            created = response.json()["data"]
            self._disposable_account.slugs[created["id"]] = created["slug"]
            self._activate_disposable_organization()
        elif operation == "changePassword" and disposable and status in (200, 429):
            self._password_account = self._accounts.sign_up()
        elif operation in ("updateMember", "deleteMember") and disposable and status == 200:
            member_id = case.path_parameters["memberId"]
            if member_id != self._inviter.user_id or case.method == "DELETE":
                self._create_inviter()

    def clean_up(self) -> None:
        """Deletes the created profiles. With thousands of profiles, later clients of the list would read many pages."""
        for number in range(MACHINES):  # profiles with running sessions cannot be deleted
            report = {"machineId": f"contract-{number}", "bootId": str(uuid4()), "seq": 0, "sessions": []}
            self._worker_client.call("POST", "/v1/license/sessions/heartbeat", report)
        page = 1
        while profiles := self._owner_client.call("GET", "/v1/profiles", limit=100, page=page)["items"]:
            remaining = [profile for profile in profiles if not self._delete_unless_seeded(profile["id"])]
            page += len(remaining) == len(profiles)

    def _delete_unless_seeded(self, profile_id: str) -> bool:
        """Deletes a profile that is not seeded. Returns whether the profile was deleted."""
        if profile_id in self._seeded_profiles:
            return False
        try:
            self._owner_client.call("DELETE", f"/v1/profiles/{profile_id}")
        except ApiError:
            return False
        return True
