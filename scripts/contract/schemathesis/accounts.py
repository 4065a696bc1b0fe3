"""Disposable accounts. Requests that would damage the seeded users and organizations use these instead."""

from __future__ import annotations

import email
import email.utils
import os
import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from uuid import uuid4

from api_client import ApiClient
from identities import DISPOSABLE, Identity, bearer_token, session_cookie

_TOKEN = re.compile(r"token=([A-Za-z0-9_-]{43})")
_MAIL_TIMEOUT = 10.0  # seconds
_PREFETCHED_MAILS = 6  # of each kind


@dataclass
class Account:
    """A user with a session."""

    email: str
    password: str
    user_id: str
    client: ApiClient
    token: str
    slugs: dict[str, str] = field(default_factory=dict)  # of the user's organizations, by organization id

    def create_organization(self) -> str:
        """Creates an organization, activates it and returns its id."""
        created = self.client.call("POST", "/v1/organizations", {"name": "Disposable"})
        self.slugs[created["id"]] = created["slug"]
        self.client.call("POST", f"/v1/organizations/{created['id']}/activate")
        return str(created["id"])

    def identity(self, like: Identity | None = None) -> Identity:
        """The session as owner of the organizations: a cookie if `like` is a cookie, otherwise a bearer token."""
        constructor = session_cookie if like is not None and like.cookies else bearer_token
        return constructor(DISPOSABLE, self.token, "owner")


class Accounts:
    """Creates accounts and reads the mails to them."""

    def __init__(self, client: ApiClient, mail_dir: Path) -> None:
        self._client = client
        self._mail_dir = mail_dir
        self._read_files: set[str] = set()  # names of mail files
        self._tokens: dict[str, list[str]] = {}  # by e-mail address, oldest first
        self._sign_ups = MailPrefetcher(self, self.sign_up)

    def sign_up(self) -> Account:
        address, password = f"{uuid4()}@disposable.example.com", f"disposable {uuid4()}"
        body = {"email": address, "password": password, "name": "Disposable"}
        return self._account(address, password, self._client.call("POST", "/v1/auth/sign-up", body))

    def unverified(self) -> tuple[Account, str]:
        """A new account, and the token that verifies its e-mail address."""
        return self._sign_ups.take()

    def verified(self) -> Account:
        created, token = self.unverified()
        self._client.call("POST", "/v1/auth/verify-email", {"token": token})
        return created

    def sign_in(self, account: Account) -> Account:
        """The same user with another session."""
        body = {"email": account.email, "password": account.password}
        return self._account(account.email, account.password, self._client.call("POST", "/v1/auth/sign-in", body))

    def token_for(self, address: str) -> str:
        """Waits for the next mail to the address and returns its token."""
        deadline = time.monotonic() + _MAIL_TIMEOUT
        while time.monotonic() < deadline:
            self._read_new_mails()
            if self._tokens.get(address):
                return self._tokens[address].pop(0)
            time.sleep(0.02)
        raise RuntimeError(f"no mail to {address} within {_MAIL_TIMEOUT:.0f} s")

    def _read_new_mails(self) -> None:
        """Reads each mail once, because a run has thousands of mails."""
        names = sorted(entry.name for entry in os.scandir(self._mail_dir) if entry.name not in self._read_files)
        for name in names:
            if name.startswith("."):
                continue
            self._read_files.add(name)
            with suppress(FileNotFoundError):  # the cloud deletes old mails
                address, token = _read_mail(self._mail_dir / name)
                if token is not None:
                    self._tokens.setdefault(address, []).append(token)

    def _account(self, address: str, password: str, session: dict[str, Any]) -> Account:
        token, user_id = session["token"], session["user"]["id"]
        return Account(address, password, user_id, self._client.with_token(token), token)


class HasEmail(Protocol):
    """A recipient of mails."""

    @property
    def email(self) -> str: ...


Recipient = TypeVar("Recipient", bound=HasEmail)


class MailPrefetcher(Generic[Recipient]):
    """Requests mails of one kind before they are needed, because the cloud takes about a second to send a mail."""

    def __init__(self, accounts: Accounts, request_mail: Callable[[], Recipient]) -> None:
        self._accounts, self._request_mail = accounts, request_mail
        self._requested: deque[Recipient] = deque()

    def take(self) -> tuple[Recipient, str]:
        """The recipient and the token of the oldest requested mail."""
        while len(self._requested) <= _PREFETCHED_MAILS:
            self._requested.append(self._request_mail())
        recipient = self._requested.popleft()
        return recipient, self._accounts.token_for(recipient.email)


def _read_mail(path: Path) -> tuple[str, str | None]:
    """The address and the token of a mail."""
    mail = email.message_from_bytes(path.read_bytes())
    body = mail.get_payload(decode=True)
    match = _TOKEN.search(body.decode()) if isinstance(body, bytes) else None
    return email.utils.parseaddr(str(mail["To"]))[1], match[1] if match else None
