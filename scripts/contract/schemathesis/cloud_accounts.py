"""Preparations of requests about users and organizations, with accounts that they may change or delete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from accounts import Account, MailPrefetcher
from api_client import ApiError
from cloud_base import CloudBase
from fixture import GeneratedRequest


@dataclass
class Invitee:
    """A user with an invitation to an organization."""

    account: Account
    inviter: Account
    organization_id: str

    @property
    def email(self) -> str:
        return self.account.email


class AccountRequests(CloudBase):
    """Signing in and out, organizations, members and invitations."""

    def __init__(self, seed: dict[str, Any]) -> None:
        super().__init__(seed)
        self._password_resets = MailPrefetcher(self._accounts, self._request_password_reset)
        self._invitations = MailPrefetcher(self._accounts, self._invite)

    def account_preparations(self) -> dict[str, Callable[[GeneratedRequest], None]]:
        return {
            "signUp": self._use_anonymous,
            "signIn": self._prepare_sign_in,
            "signInWithLink": self._prepare_sign_in_with_link,
            "createSignInLink": self._prepare_limited_mail,
            "updateUser": self._use_disposable_account,
            "requestPasswordReset": self._prepare_password_reset_request,
            "verifyEmail": self._prepare_verification,
            "resetPassword": self._prepare_password_reset,
            "signOut": self._prepare_sign_out,
            "signOutEverywhere": self._prepare_sign_out,
            "endAuthSession": self._prepare_session_end,
            "changePassword": self._prepare_password_change,
            "revokeAccessToken": self._prepare_token_revocation,
            "sendVerificationEmail": self._prepare_limited_mail,
            "createOrganization": self._use_disposable_account,
            "activateOrganization": self._prepare_activation,
            "updateOrganization": self._prepare_organization_update,
            "deleteOrganization": self._prepare_organization_deletion,
            "updateMember": self._prepare_member,
            "deleteMember": self._prepare_member,
            "revokeInvitation": self._prepare_revocation,
            "acceptInvitation": self._prepare_acceptance,
        }

    # Signing in and out

    def _use_anonymous(self, request: GeneratedRequest) -> None:
        if request.random_bool(0.8):
            request.identity = self._identities[0]

    def _prepare_sign_in(self, request: GeneratedRequest) -> None:
        self._use_anonymous(request)
        if not isinstance(request.case.body, dict):
            return
        # Failed attempts would lock the seeded users.
        if self._has_seeded_email(request) or request.random_bool(0.5):
            request.set_body_fields(email=self._sign_out_account.email, password=self._sign_out_account.password)

    def _prepare_sign_in_with_link(self, request: GeneratedRequest) -> None:
        self._use_anonymous(request)
        if request.random_bool(0.1):
            link = self._accounts.sign_up().client.call("POST", "/v1/auth/sign-in-links")
            request.set_body_fields(token=link["url"].partition("#token=")[2])

    def _prepare_password_reset_request(self, request: GeneratedRequest) -> None:
        self._use_anonymous(request)
        if isinstance(request.case.body, dict) and self._has_seeded_email(request):
            request.set_body_fields(email=self._sign_out_account.email)

    def _has_seeded_email(self, request: GeneratedRequest) -> bool:
        return str(request.case.body.get("email")).lower() in self._seeded_emails

    def _prepare_verification(self, request: GeneratedRequest) -> None:
        self._use_anonymous(request)
        if request.random_bool(0.1):
            request.set_body_fields(token=self._accounts.unverified()[1])

    def _prepare_password_reset(self, request: GeneratedRequest) -> None:
        self._use_anonymous(request)
        if request.random_bool(0.1):
            request.set_body_fields(token=self._password_resets.take()[1])

    def _request_password_reset(self) -> Account:
        account = self._accounts.verified()
        self._client.call("POST", "/v1/auth/password/forgot", {"email": account.email})
        return account

    def _prepare_sign_out(self, request: GeneratedRequest) -> None:
        if request.authorized:
            request.identity = self._accounts.sign_in(self._sign_out_account).identity(request.identity)

    def _prepare_session_end(self, request: GeneratedRequest) -> None:
        if not request.authorized:
            return
        self._accounts.sign_in(self._sign_out_account)
        current = self._accounts.sign_in(self._sign_out_account)
        session_id = current.client.call("GET", "/v1/auth/sessions", limit=2)["items"][-1]["id"]
        request.identity = current.identity(request.identity)
        if request.random_bool(0.8):
            request.set_path_parameters(sessionId=session_id)

    def _prepare_token_revocation(self, request: GeneratedRequest) -> None:
        if not request.authorized:
            return
        request.identity = self._disposable_account.identity(request.identity)
        if request.random_bool(0.8) and not request.in_scenario:
            self._activate_disposable_organization()
            body = {"name": "contract", "scopes": ["profiles:read"]}
            created = self._disposable_account.client.call("POST", "/v1/auth/tokens", body)
            request.set_path_parameters(tokenId=created["accessToken"]["id"])

    def _prepare_password_change(self, request: GeneratedRequest) -> None:
        if not request.authorized:
            return
        request.identity = self._password_account.identity(request.identity)
        if request.random_bool(0.8):
            request.set_body_fields(currentPassword=self._password_account.password)

    def _prepare_limited_mail(self, request: GeneratedRequest) -> None:
        """Uses a new account for some requests, because a user gets 429 after a few mails or links."""
        if request.authorized and request.random_bool(0.7):
            account = self._accounts.sign_up() if request.random_bool(0.2) else self._password_account
            request.identity = account.identity(request.identity)

    # Organizations

    def _use_disposable_account(self, request: GeneratedRequest) -> None:
        if request.authorized:
            request.identity = self._disposable_account.identity(request.identity)

    def _prepare_activation(self, request: GeneratedRequest) -> None:
        # The seeded organization must remain the active one of the seeded users.
        organization_id = (request.case.path_parameters or {}).get("organizationId")
        if organization_id not in self._disposable_account.slugs or not request.in_scenario:
            organization_id = self._organization_id if request.random_bool(0.8) else str(uuid4())
            request.set_path_parameters(organizationId=organization_id)

    def _prepare_organization_update(self, request: GeneratedRequest) -> None:
        if request.authorized:
            request.identity = self._disposable_account.identity(request.identity)
            if not request.in_scenario:
                self._activate_disposable_organization()
                request.set_path_parameters(organizationId=self._disposable_organization)

    def _prepare_organization_deletion(self, request: GeneratedRequest) -> None:
        if not request.authorized:
            return
        request.identity = self._disposable_account.identity(request.identity)
        slugs = self._disposable_account.slugs
        organization_id = str((request.case.path_parameters or {}).get("organizationId"))
        of_scenario = organization_id in slugs and organization_id != self._disposable_organization
        if not (request.in_scenario and of_scenario):
            organization_id = self._disposable_account.create_organization()
            request.set_path_parameters(organizationId=organization_id)
        if "confirmSlug" in request.case.query and request.random_bool(0.8):
            request.set_query_parameters(confirmSlug=slugs[organization_id])

    def _prepare_member(self, request: GeneratedRequest) -> None:
        if not request.authorized:
            return
        inviter, organization_id, member_id = self._inviter, self._inviter_organization, self._inviter.user_id
        if request.random_bool(0.2):
            invitee, token = self._invitations.take()
            invitee.account.client.call("POST", "/v1/invitations/accept", {"token": token})
            inviter, organization_id, member_id = invitee.inviter, invitee.organization_id, invitee.account.user_id
        request.identity = inviter.identity(request.identity)
        request.set_path_parameters(organizationId=organization_id, memberId=member_id)

    def _invite(self) -> Invitee:
        invitee = Invitee(self._accounts.verified(), self._inviter, self._inviter_organization)
        body = {"email": invitee.email, "role": "member"}
        try:
            self._inviter.client.call("POST", f"/v1/organizations/{self._inviter_organization}/members/invite", body)
        except ApiError as error:
            if error.status != 429:
                raise
            self._create_inviter()  # the limit is a hundred invitations per inviter
            return self._invite()
        return invitee

    def _prepare_revocation(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.8) and not request.in_scenario:
            body = {"email": f"{uuid4()}@example.com", "role": "member"}
            path = f"/v1/organizations/{self._organization_id}/members/invite"
            try:
                created = self._owner_client.call("POST", path, body)
            except ApiError as error:
                if error.status != 429:  # the limit is a hundred invitations
                    raise
                return
            request.set_path_parameters(invitationId=created["id"])

    def _prepare_acceptance(self, request: GeneratedRequest) -> None:
        if request.authorized and request.random_bool(0.1):
            invitee, token = self._invitations.take()
            request.identity = invitee.account.identity(request.identity)
            request.set_body_fields(token=token)
