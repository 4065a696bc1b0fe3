"""What both surfaces have in common: giving a generated request a credential and real ids."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from identities import Identity, security

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CHROMIUMS_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_FORMS = {
    "browserGuid": _CHROMIUMS_ID,
    "targetId": _CHROMIUMS_ID,
    "extensionId": re.compile(r"[0-9a-f]{64}"),
    "file": _CHROMIUMS_ID,
    "webDriverSessionId": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "webDriverCommand": re.compile(r".+", re.DOTALL),
}


def operation_id(case: Any) -> str:
    return str(case.operation.definition.raw["operationId"])


class Call:
    """A generated request on its way, with a chance of its own: the same request takes the same turns again."""

    def __init__(self, case: Any, chance: random.Random, identity: Identity) -> None:
        self.case, self.chance, self.identity = case, chance, identity
        meta = case.meta
        self.linked = meta is not None and meta.phase.name.value == "stateful"

    @property
    def works(self) -> bool:
        """Whether the credential lets it through, so that it may change something."""
        return self.identity.allowed(self.case.operation)

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def aim(self, **ids: str) -> None:
        """Puts real ids where valid ones stand in the path; what is invalid on purpose stays."""
        parameters = dict(self.case.path_parameters or {})
        for name, value in ids.items():
            if _FORMS.get(name, _UUID).fullmatch(str(parameters.get(name, ""))):
                parameters[name] = value
        if parameters != self.case.path_parameters:
            self.case.path_parameters = parameters

    def fill(self, **values: object) -> None:
        """Puts values into a body that is an object."""
        if isinstance(self.case.body, dict):
            self.case.body = {**self.case.body, **values}

    def ask(self, **values: str) -> None:
        """Puts values into the query."""
        self.case.query = {**self.case.query, **values}


class Surface(ABC):
    """One of the two services, with what the requests to it need."""

    def __init__(self) -> None:
        self.preparations: dict[str, Callable[[Call], None]] = {}

    @abstractmethod
    def identities(self) -> list[Identity]:
        """All kinds of credentials, worthless ones included."""

    @abstractmethod
    def steady(self, case: Any) -> Identity:
        """The credential of all steps of a scenario, which has to find again what it made."""

    def choose(self, case: Any, chance: random.Random) -> Identity:
        """Mostly a credential that the operation accepts, so that the request gets deep."""
        meta = case.meta
        if meta is not None and meta.phase.name.value == "stateful":
            return self.steady(case)
        # What goes into the query is refused for itself where the document knows no such parameter.
        everybody = [one for one in self.identities() if not one.query or one.opens & security(case.operation)]
        accepted = [one for one in everybody if one.allowed(case.operation)]
        return chance.choice(accepted if accepted and chance.random() < 0.75 else everybody)

    def prepare(self, case: Any, chance: random.Random) -> None:
        """Gives the request its credential, its ids, and what it needs to succeed without harm."""
        call = Call(case, chance, self.choose(case, chance))
        self.before_all(call)
        preparation = self.preparations.get(operation_id(case))
        if preparation is not None:
            preparation(call)
        call.identity.put_on(case)

    @abstractmethod
    def before_all(self, call: Call) -> None:
        """What every request gets."""

    @abstractmethod
    def settle(self, case: Any, response: Any) -> None:
        """Puts right what a request has changed for those that follow."""

    @abstractmethod
    def finish(self) -> None:
        """Takes away what is left at the end."""
