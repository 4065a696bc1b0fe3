"""Accounts of the stage's own: what would harm the seeded users and organizations is done to these."""

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

from api import Api
from identities import Identity, bearer, cookie

_TOKEN = re.compile(r"token=([A-Za-z0-9_-]{43})")
_MAIL_TIME = 10.0  # seconds until a mail must have been written
_AHEAD = 6  # mails of a kind on their way


@dataclass
class Account:
    """A user, signed in."""

    email: str
    password: str
    user: str
    api: Api
    token: str
    organizations: dict[str, str] = field(default_factory=dict)  # slug by id

    def organization(self) -> str:
        """A new organization, which is then the active one."""
        made = self.api.call("POST", "/v1/organizations", {"name": "Sacrifice"})
        self.organizations[made["id"]] = made["slug"]
        self.api.call("POST", f"/v1/organizations/{made['id']}/activate")
        return str(made["id"])

    def identity(self, form: Identity | None = None) -> Identity:
        """Its session as owner of its organizations, in the same form as another credential."""
        make = cookie if form is not None and form.cookies else bearer
        return make("sacrifice", self.token, "owner")


class Accounts:
    """Makes accounts and reads their mail."""

    def __init__(self, cloud: Api, mail: Path) -> None:
        self._cloud = cloud
        self._mail = mail
        self._read: set[str] = set()  # the names of mails
        self._tokens: dict[str, list[str]] = {}  # by address, the oldest first
        self._new = Letters(self, self.new)

    def new(self) -> Account:
        address, password = f"{uuid4()}@sacrifice.example.com", f"sacrifice {uuid4()}"
        body = {"email": address, "password": password, "name": "Sacrifice"}
        return self._of(address, password, self._cloud.call("POST", "/v1/auth/sign-up", body))

    def unverified(self) -> tuple[Account, str]:
        """An account, and the token that verifies its address."""
        return self._new.take()

    def verified(self) -> Account:
        made, token = self.unverified()
        self._cloud.call("POST", "/v1/auth/verify-email", {"token": token})
        return made

    def again(self, account: Account) -> Account:
        """Another session of the same user."""
        body = {"email": account.email, "password": account.password}
        return self._of(account.email, account.password, self._cloud.call("POST", "/v1/auth/sign-in", body))

    def token_for(self, address: str) -> str:
        """The token of the next mail to that address."""
        end = time.monotonic() + _MAIL_TIME
        while time.monotonic() < end:
            self._fetch()
            if self._tokens.get(address):
                return self._tokens[address].pop(0)
            time.sleep(0.02)
        raise RuntimeError(f"no mail to {address} within {_MAIL_TIME:.0f} s")

    def _fetch(self) -> None:
        """Reads the mails that have come, each once: there are thousands in the end."""
        new = sorted(entry.name for entry in os.scandir(self._mail) if entry.name not in self._read)
        for name in new:
            if name.startswith("."):
                continue
            self._read.add(name)
            with suppress(FileNotFoundError):  # swept meanwhile
                address, token = _letter(self._mail / name)
                if token is not None:
                    self._tokens.setdefault(address, []).append(token)

    def _of(self, address: str, password: str, session: dict[str, Any]) -> Account:
        token, user = session["token"], session["user"]["id"]
        return Account(address, password, user, self._cloud.bearing(token), token)


class Addressed(Protocol):
    """Somebody to whom a mail goes."""

    @property
    def email(self) -> str: ...


To = TypeVar("To", bound=Addressed)


class Letters(Generic[To]):
    """Mails of one kind, asked for well before they are needed: the cloud takes about a second to send one."""

    def __init__(self, accounts: Accounts, ask: Callable[[], To]) -> None:
        self._accounts, self._ask = accounts, ask
        self._asked: deque[To] = deque()

    def take(self) -> tuple[To, str]:
        """To whom a mail went, and its token."""
        while len(self._asked) <= _AHEAD:
            self._asked.append(self._ask())
        to = self._asked.popleft()
        return to, self._accounts.token_for(to.email)


def _letter(path: Path) -> tuple[str, str | None]:
    """To whom a mail goes, and its token."""
    mail = email.message_from_bytes(path.read_bytes())
    body = mail.get_payload(decode=True)
    found = _TOKEN.search(body.decode()) if isinstance(body, bytes) else None
    return email.utils.parseaddr(str(mail["To"]))[1], found[1] if found else None
