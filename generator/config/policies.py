"""`policies`: what holds for every tenant."""

from __future__ import annotations

from typing import Literal

from generator.config.fields import Section


class Policies(Section):
    """Rules for all tenant namespaces."""

    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security Standard that namespaces enforce. Every runtime of the catalogue runs under `restricted`."""
