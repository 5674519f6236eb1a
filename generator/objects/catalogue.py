"""The catalogue of a team in ConfigMaps: its format, and the objects that it contains.

generator/jobs/config_maps.py writes it. Objects are JSON, one on each line. Large ones are compressed, because they
would exceed the limit of 1 MiB (kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateConfigMap). A
release has the same bytes on every machine, so the compression is bzip2: some distributions replace zlib by zlib-ng,
which compresses in another way (https://fedoraproject.org/wiki/Changes/ZlibNGTransition).
"""

from __future__ import annotations

import base64
import bz2
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from generator.documents.messages import format_names
from generator.documents.scalars import read_json
from generator.errors import DocumentError, Problem
from generator.facts.names import CATALOGUE, CATALOGUE_LABEL, CATALOGUE_NAMESPACE, FOLDED, PART_OF, TEAM_CATALOGUE
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, string, string_map

OBJECTS, PACKED, TARGETS = "objects.json", "objects.json.bz2", "targets.json"
"""The keys of the objects, of the packed objects, and of the target versions."""
_LARGEST = 64 * 1024**2  # bytes
_QUEUES = ("ClusterQueue", "LocalQueue")


class Unpacked(NamedTuple):
    """The objects of manifests, with the objects that catalogues among them contain.

    Attributes:
        objects: the objects, without the catalogues.
        targets: component → minor version; empty without a catalogue.
        is_complete: True if the objects include a catalogue, so that an absent object of the team does not exist.
    """

    objects: list[Manifest]
    targets: dict[str, str]
    is_complete: bool


def part_of(item: Manifest) -> str:
    """Return `platform` or `team` for a ConfigMap of a catalogue; else an empty text."""
    return string(item.labels.get(CATALOGUE_LABEL)) if (item.group, item.kind) == ("", "ConfigMap") else ""


def as_lines(bodies: Iterable[Body]) -> str:
    """Return objects as JSON, one on each line."""
    return "".join(f"{json.dumps(body, separators=(',', ':'), ensure_ascii=False)}\n" for body in bodies)


def pack(bodies: Iterable[Body]) -> str:
    """Return objects in the form of the key `PACKED`."""
    return base64.b64encode(bz2.compress(as_lines(bodies).encode())).decode()


def unpack_catalogues(manifests: Sequence[Manifest]) -> Unpacked:
    """Return manifests with the objects of the catalogue among them. Objects outside of the catalogue take precedence.

    A catalogue beside queues is not unpacked: it is then a part of a release, or of an export of the cluster.

    Raises:
        DocumentError: a part of the catalogue is missing, there are two of a part, the parts are of different
            platforms, or the data is damaged.
    """
    parts = [*{item.identity: item for item in manifests if part_of(item)}.values()]
    if not parts or any(item.kind in _QUEUES for item in manifests):
        return Unpacked([*manifests], {}, is_complete=False)
    if problems := [*_find_problems(parts)]:
        raise DocumentError(tuple(problems))
    problems, objects, targets = [], list[Manifest](), dict[str, str]()
    for item in parts:
        try:
            objects += _read_objects(item)
            targets |= string_map(read_json(string(mapping(item.body, "data").get(TARGETS)) or "{}"))
        except (ValueError, OSError, EOFError):
            fix = "read the ConfigMap from the cluster again, with `--output yaml`"
            problems.append(Problem(f"the data of {item.resource} is damaged", fix, item.file))
    if problems:
        raise DocumentError(tuple(problems))
    others = [item for item in manifests if not part_of(item)]
    present = {item.identity for item in others}
    own = [item for item in _without_foreign_cohorts(objects) if item.identity not in present]
    return Unpacked([*own, *others], targets, is_complete=True)


def _without_foreign_cohorts(objects: Sequence[Manifest]) -> Iterator[Manifest]:
    """Leave out the Cohorts that are not above a ClusterQueue of the team."""
    parents = {item.name: string(mapping(item.body, "spec").get("parentName")) for item in objects if _is_folded(item)}
    above: set[str] = set()
    for item in objects:
        if item.kind == "ClusterQueue":
            spec = mapping(item.body, "spec")
            name = string(spec.get("cohortName"), string(spec.get("cohort")))
            while name and name not in above:
                above.add(name)
                name = parents.get(name, "")
    return (item for item in objects if not _is_folded(item) or item.name in above)


def _is_folded(item: Manifest) -> bool:
    return item.kind == "Cohort" and FOLDED in mapping(item.body, "metadata", "annotations")


def _find_problems(parts: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield why the ConfigMaps are not the catalogue of one team: one of the platform, and one of the team."""
    by_part: dict[str, list[Manifest]] = {part: [] for part in ("platform", "team")}
    for item in parts:
        by_part.setdefault(part_of(item), []).append(item)
    platform = string(parts[0].labels.get(PART_OF)) or "PLATFORM"
    command = "kubectl get configmap {} --namespace {} --output yaml"
    places = {
        "platform": command.format(CATALOGUE, f"{platform}{CATALOGUE_NAMESPACE}"),
        "team": command.format(TEAM_CATALOGUE, "TEAM"),
    }
    for part, items in by_part.items():
        if part in places and not items:
            message = f"the catalogue of the {part} is missing"
            yield Problem(message, f"add the output of `{places[part]}`", parts[0].file)
        elif len(items) > 1:
            known = format_names(sorted(item.resource for item in items))
            yield Problem(f"there are several catalogues: {known}", "name the catalogue of one team", items[-1].file)
    platforms = {string(item.labels.get(PART_OF)) for item in parts}
    if len(platforms) > 1:
        message = f"the catalogues are of different platforms: {format_names(sorted(platforms))}"
        yield Problem(message, "read both ConfigMaps from the cluster again", parts[-1].file)


def _read_objects(item: Manifest) -> list[Manifest]:
    """Return the objects in the ConfigMap of a catalogue.

    Raises:
        ValueError, OSError, EOFError: the data is damaged, or has over 64 MiB.
    """
    text, binary = string(mapping(item.body, "data").get(OBJECTS)), mapping(item.body, "binaryData")
    if PACKED in binary:
        unpacker = bz2.BZ2Decompressor()
        packed = base64.b64decode(string(binary[PACKED]), validate=True)
        text += unpacker.decompress(packed, _LARGEST).decode()
        if not unpacker.eof:
            message = "the data is larger than a catalogue, or incomplete"
            raise ValueError(message)
    bodies = [read_json(line) for line in text.splitlines()]
    if not (bodies and all(isinstance(body, dict) for body in bodies)):
        message = "a line is no object"
        raise ValueError(message)
    return [Manifest(body, item.file, item.index) for body in bodies]
