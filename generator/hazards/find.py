"""Find every hazard of a platform, and place it in the file that declares the platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from generator.checks.finding import Finding, Severity
from generator.config.places import Written, written_places
from generator.config.platform import Platform
from generator.hazards.devices import device_hazards
from generator.hazards.egress import egress_hazards
from generator.hazards.file_name import file_name_hazards
from generator.hazards.hazard import Hazard
from generator.hazards.people import people_hazards
from generator.hazards.runtimes import runtime_hazards
from generator.hazards.volumes import volume_hazards

CHECKS = (
    "platform/open-egress",
    "platform/metadata-egress",
    "platform/cluster-egress",
    "platform/everyone-reads",
    "platform/shared-account",
    "platform/unknown-resource",
    "platform/many-devices",
    "platform/nested-volumes",
    "platform/hidden-software",
    "platform/unusable-runtime",
    "platform/shadowed-module",
)


def hazards(platform: Platform) -> Iterator[Hazard]:
    """Return every hazard of a platform."""
    yield from device_hazards(platform)
    yield from runtime_hazards(platform)
    yield from volume_hazards(platform)
    yield from egress_hazards(platform)
    yield from people_hazards(platform)


def find_hazards(platform: Platform, file: Path) -> list[Finding]:
    """Return a warning for every hazard, with its line if the file is YAML.

    Args:
        platform: the platform that the file declares.
        file: a platform.yaml or mpigen_platform.py, as the user named it.
    """
    found = [*file_name_hazards(file), *hazards(platform)]
    places = written_places(file, [hazard.path for hazard in found])
    return [_finding(hazard, str(file), place) for hazard, place in zip(found, places, strict=True)]


def _finding(hazard: Hazard, file: str, place: Written) -> Finding:
    return Finding(
        file=file,
        line=place.line,
        column=place.column,
        path=place.path,
        check=hazard.check,
        resource="",
        message=hazard.message,
        why=hazard.why,
        fix=hazard.fix,
        severity=Severity.WARNING,
    )
