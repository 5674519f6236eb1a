"""`tenants[].fabrics`: the part of a fabric that is a team's own, which alone keeps others out of it."""

from __future__ import annotations

from generator.config.fabric_words import PKey, Range, Vlan
from generator.config.fields import Name, Section


class FabricShare(Section):
    """The team's own partition of a fabric. No NetworkPolicy is asked on a fabric: this is what separates teams."""

    name: Name
    """The fabric."""
    pkey: PKey | None = None
    """InfiniBand: the key of its partition, in quotes, such as `"0x101"`."""
    vlan: Vlan | None = None
    """RoCE and Ethernet: its VLAN."""
    range: Range | None = None
    """Its addresses, instead of those of the fabric."""
