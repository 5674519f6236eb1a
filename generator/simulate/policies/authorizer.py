"""The authorizer as policies ask it: what RBAC in the files allows, and what nobody can know by them.

What else a cluster asks (webhooks, and for kubelets the node authorizer) is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generator.errors import Problem
from generator.simulate.access import Access, Asked, Who
from generator.simulate.access_everybody import with_everybody
from generator.simulate.policies.functions import authorizer
from generator.simulate.policies.signatures import Function

_ACCOUNT = "system:serviceaccount:"
_KUBERNETES = "system:serviceaccount:kube-system:"
_EVERYBODYS = ("system:authenticated", "system:unauthenticated", "system:serviceaccounts")
_FIX = "add them to the files, or to `given`"


ANSWERS = ("check", "reason")
"""The functions by which an expression needs an answer."""


class UnknownError(ValueError):
    """The files do not say."""


class Authorizer:
    """Answers one expression.

    Attributes:
        doubts: what could not be answered. To the expression it is an error: it counts where the result is one.
    """

    def __init__(self, access: Access) -> None:
        """Answer by what the files grant."""
        self.access = access
        self.doubts: list[Problem] = []

    def functions(self) -> tuple[Function, ...]:
        """What an expression calls."""
        return authorizer.deciding(self._decided, self._explained)

    def _decided(self, asked: Mapping[str, Any], verb: str) -> dict[str, dict[str, Any]]:
        said = {key: value for key, value in asked.items() if key not in ("user", "groups")}
        who, request = Who(asked["user"], frozenset(asked["groups"])), Asked(verb, **said)
        reasons = with_everybody(self.access).reasons(who, request)
        if not reasons:
            self._doubt(self._unknown(who, request), _FIX)
        return authorizer.decision(is_allowed=bool(reasons), reasons=reasons)

    def _unknown(self, who: Who, asked: Asked) -> str:
        """Why somebody may be allowed more than is known; empty if it is all."""
        may = f"whether {who.user} may {asked.verb} {asked.url or asked.resource}"
        if not self.access.grants:
            return f"nothing says {may}: there are no Roles and no bindings"
        if gaps := self.access.gaps(who, asked.namespace):
            return f"nothing says {may}: {'; '.join(gaps)}"
        if _is_of_kubernetes(who):
            return f"nothing says {may}: what Kubernetes grants its own parts is not among the files"
        return ""

    def _explained(self, reasons: list[str]) -> str:
        if len(reasons) > 1:
            self._doubt(f"which of these allows it is chance: {'; '.join(reasons)}", "do not compare the reason")
        return next(iter(reasons), "")

    def _doubt(self, message: str, fix: str) -> None:
        if message:
            self.doubts.append(Problem(message, fix))
            raise UnknownError(message)


def _is_of_kubernetes(who: Who) -> bool:
    """bootstrappolicy/{policy,controller_policy,namespace_policy}.go name no other service accounts."""
    is_part = who.user.startswith(_KUBERNETES) or (
        who.user.startswith("system:") and not who.user.startswith(_ACCOUNT) and who.user != "system:anonymous"
    )
    return is_part or any(each.startswith("system:") and not each.startswith(_EVERYBODYS) for each in who.groups)
