"""`tenants[].relax`: a default that does not hold for a team, with a reason and an end."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from generator.config.admission import RuleName
from generator.config.fields import Section, Text, refusal
from generator.config.reservations import Day

Standard = Literal["memlock", "baseline", "privileged"]
POD_SECURITY = "pod-security"
_OF_ALL = ("generated", "runtime-images")  # of objects that no tenant has


def _is_of_a_tenant(value: str) -> str:
    if value in _OF_ALL:
        raise refusal(f"`{value}` is about what all tenants share", "relax it for all, in `policies.admission.rules`")
    return value


class Relaxation(Section):
    """A rule that does not hold in the namespaces of a team until a day."""

    rule: Annotated[Literal[RuleName, "pod-security"], AfterValidator(_is_of_a_tenant)]
    """A rule of `policies.admission`, or `pod-security`."""
    to: Standard | None = None
    """Of `pod-security`: what is enforced instead. `memlock`: `restricted`, but for the capability IPC_LOCK, by which
    ranks lock the memory that RDMA uses. `baseline` and `privileged` are Kubernetes' own."""
    reason: Annotated[Text, Field(max_length=1000)]
    """Why, for whoever reviews it: it is said in every report."""
    until: Day
    """The last day. From the next on no release is written with it: nothing changes by itself in a cluster."""

    @model_validator(mode="after")
    def _says_to_what(self) -> Self:
        if self.rule == POD_SECURITY and self.to is None:
            raise refusal("`pod-security`, and not to what", "add `to: memlock`, baseline or privileged")
        if self.rule != POD_SECURITY and self.to is not None:
            raise refusal(f"`{self.rule}` holds or does not", "remove `to`")
        return self
