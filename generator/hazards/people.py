"""platform/everyone-reads, platform/shared-account: subjects that stand for more callers than one team."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.access import no_person
from generator.config.platform import Platform
from generator.hazards.hazard import Hazard

_ROLES = ("admin", "edit", "submit", "view")


def people_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report subjects of teams that are everyone, or any pod of a namespace."""
    for tenant in platform.tenants:
        for role in _ROLES:
            for subject in getattr(tenant.access, role):
                path = ("tenants", tenant.name, "access", role, subject)
                if why := no_person(subject):
                    yield Hazard(
                        "platform/everyone-reads",
                        path,
                        why,
                        f"all of them read the jobs and logs of `{tenant.name}`",
                        "name a group of your identity provider",
                    )
                elif subject.startswith("serviceaccount:") and subject.endswith("/default"):
                    namespace = subject.removeprefix("serviceaccount:").removesuffix("/default")
                    yield Hazard(
                        "platform/shared-account",
                        path,
                        f"`{subject}` is the ServiceAccount of every pod in `{namespace}` that names none",
                        f"any such pod has the role `{role}` of `{tenant.name}`",
                        "make a ServiceAccount for this purpose, and name it",
                    )
