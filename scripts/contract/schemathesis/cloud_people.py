"""What requests about users and organizations need, and whom they may harm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from accounts import Account, Letters
from api import Refused
from cloud_base import CloudBase
from surface import Call


@dataclass
class Guest:
    """A user who is invited to a club."""

    account: Account
    host: Account
    club: str

    @property
    def email(self) -> str:
        return self.account.email


class People(CloudBase):
    """Signing in and out, organizations, members and invitations."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__(seed)
        self._forgetful = Letters(self._accounts, self._forget)
        self._guests = Letters(self._accounts, self._invite)

    def people(self) -> dict[str, Callable[[Call], None]]:
        return {
            "signUp": self._as_nobody,
            "signIn": self._sign_in,
            "signInWithLink": self._sign_in_with_link,
            "createSignInLink": self._resend,
            "updateUser": self._at_home,
            "requestPasswordReset": self._forgot,
            "verifyEmail": self._verify,
            "resetPassword": self._reset,
            "signOut": self._leave,
            "signOutEverywhere": self._leave,
            "endAuthSession": self._end_session,
            "changePassword": self._change_password,
            "sendVerificationEmail": self._resend,
            "createOrganization": self._at_home,
            "activateOrganization": self._activate,
            "updateOrganization": self._rename,
            "deleteOrganization": self._delete_organization,
            "updateMember": self._member,
            "deleteMember": self._member,
            "revokeInvitation": self._invitation,
            "acceptInvitation": self._accept,
        }

    # Signing in and out

    def _as_nobody(self, call: Call) -> None:
        if call.odds(0.8):
            call.identity = self._identities[0]

    def _sign_in(self, call: Call) -> None:
        self._as_nobody(call)
        if not isinstance(call.case.body, dict):
            return
        # Failures would lock the seeded users out.
        if self._seeded(call) or call.odds(0.5):
            call.fill(email=self._leaver.email, password=self._leaver.password)

    def _sign_in_with_link(self, call: Call) -> None:
        self._as_nobody(call)
        if call.odds(0.1):
            link = self._accounts.new().api.call("POST", "/v1/auth/sign-in-links")
            call.fill(token=link["url"].partition("#token=")[2])

    def _forgot(self, call: Call) -> None:
        self._as_nobody(call)
        if isinstance(call.case.body, dict) and self._seeded(call):
            call.fill(email=self._leaver.email)

    def _seeded(self, call: Call) -> bool:
        return str(call.case.body.get("email")).lower() in self._users

    def _verify(self, call: Call) -> None:
        self._as_nobody(call)
        if call.odds(0.1):
            call.fill(token=self._accounts.unverified()[1])

    def _reset(self, call: Call) -> None:
        self._as_nobody(call)
        if call.odds(0.1):
            call.fill(token=self._forgetful.take()[1])

    def _forget(self) -> Account:
        made = self._accounts.verified()
        self._api.call("POST", "/v1/auth/password/forgot", {"email": made.email})
        return made

    def _leave(self, call: Call) -> None:
        if call.works:
            call.identity = self._accounts.again(self._leaver).identity(call.identity)

    def _end_session(self, call: Call) -> None:
        if not call.works:
            return
        self._accounts.again(self._leaver)
        staying = self._accounts.again(self._leaver)
        ended = staying.api.call("GET", "/v1/auth/sessions", limit=2)["items"][-1]["id"]
        call.identity = staying.identity(call.identity)
        if call.odds(0.8):
            call.aim(sessionId=ended)

    def _change_password(self, call: Call) -> None:
        if not call.works:
            return
        call.identity = self._changer.identity(call.identity)
        if call.odds(0.8):
            call.fill(currentPassword=self._changer.password)

    def _resend(self, call: Call) -> None:
        if call.works and call.odds(0.7):
            # A few mails and links are free for a user, then comes 429.
            call.identity = (self._accounts.new() if call.odds(0.2) else self._changer).identity(call.identity)

    # Organizations

    def _at_home(self, call: Call) -> None:
        if call.works:
            call.identity = self._victim.identity(call.identity)

    def _activate(self, call: Call) -> None:
        # The seeded users go on working where they work.
        if (call.case.path_parameters or {}).get("organizationId") not in self._victim.organizations or not call.linked:
            call.aim(organizationId=self._organization if call.odds(0.8) else str(uuid4()))

    def _rename(self, call: Call) -> None:
        if call.works:
            call.identity = self._victim.identity(call.identity)
            if not call.linked:
                self._activate_home()
                call.aim(organizationId=self._home)

    def _delete_organization(self, call: Call) -> None:
        if not call.works:
            return
        call.identity = self._victim.identity(call.identity)
        named = (call.case.path_parameters or {}).get("organizationId")
        if not (call.linked and named in self._victim.organizations and named != self._home):
            named = self._victim.organization()
            call.aim(organizationId=named)
        if "confirmSlug" in call.case.query and call.odds(0.8):
            call.ask(confirmSlug=self._victim.organizations[named])

    def _member(self, call: Call) -> None:
        if not call.works:
            return
        host, club, member = self._host, self._club, self._host.user
        if call.odds(0.2):
            guest, token = self._guests.take()
            guest.account.api.call("POST", "/v1/invitations/accept", {"token": token})
            host, club, member = guest.host, guest.club, guest.account.user
        call.identity = host.identity(call.identity)
        call.aim(organizationId=club, memberId=member)

    def _invite(self) -> Guest:
        guest = Guest(self._accounts.verified(), self._host, self._club)
        body = {"email": guest.email, "role": "member"}
        try:
            self._host.api.call("POST", f"/v1/organizations/{self._club}/members/invite", body)
        except Refused as refused:
            if refused.status != 429:
                raise
            self._found_club()  # a host has a hundred invitations free
            return self._invite()
        return guest

    def _invitation(self, call: Call) -> None:
        if call.works and call.odds(0.8) and not call.linked:
            body = {"email": f"{uuid4()}@example.com", "role": "member"}
            try:
                made = self._owner.call("POST", f"/v1/organizations/{self._organization}/members/invite", body)
            except Refused as refused:
                if refused.status != 429:  # a hundred are free
                    raise
                return
            call.aim(invitationId=made["id"])

    def _accept(self, call: Call) -> None:
        if call.works and call.odds(0.1):
            guest, token = self._guests.take()
            call.identity = guest.account.identity(call.identity)
            call.fill(token=token)
