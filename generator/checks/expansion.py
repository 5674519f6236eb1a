"""runtime/broken-value, trainjob/broken-value: values that the kubelet breaks while it expands `$(NAME)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach
from generator.checks.mpi_runtime import JOB_SET
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.facts.defects import known
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, items, mapping

_EXPRESSION = re.compile(r"\$(?:\$|\([^)]*\)|(?P<rest>.))", re.DOTALL)
"""What the kubelet reads at a `$`: an escaped `$`, a reference, or one byte of anything else."""


def of_runtime(body: Body) -> Iterator[Breach]:
    """Report values of a runtime's containers in which a character beyond ASCII follows a `$`."""
    for number, job in indexed_mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs")):
        inside = ("template", "spec", "template", "spec")
        for kind in ("initContainers", "containers"):
            for place, container in indexed_mappings(mapping(job, *inside).get(kind)):
                path = (*JOB_SET, "replicatedJobs", number, *inside, kind, place)
                yield from _broken(container, path, "runtime/broken-value")


def of_job(body: Body) -> Iterator[Breach]:
    """Report the same of `spec.trainer`."""
    yield from _broken(mapping(body, "spec", "trainer"), ("spec", "trainer"), "trainjob/broken-value")


def _broken(container: Mapping[str, Any], path: Path, check: str) -> Iterator[Breach]:
    """Yield the broken values of a container.

    kubernetes v1.34.2 third_party/forked/golang/expansion/expand.go tryReadVariableName: it keeps one byte of the
    character; pkg/kubelet/kubelet_pods.go makeEnvironmentVariables, pkg/kubelet/container/helpers.go
    ExpandContainerCommandAndArgs.
    """
    env = [
        ((*path, "env", number, "value"), item.get("value")) for number, item in indexed_mappings(container.get("env"))
    ]
    words = [
        ((*path, field, number), item)
        for field in ("command", "args")
        for number, item in enumerate(items(container.get(field)))
    ]
    for place, value in (*env, *words):
        if isinstance(value, str) and (pair := _pair(value)):
            defect = known("kubernetes-breaks-characters-after-a-dollar")
            yield Breach(
                place,
                check,
                f"the value contains {shown(pair)}",
                "the kubelet cuts the character after `$` in two, so since Kubernetes 1.34 the container never starts: "
                f"CreateContainerError, invalid UTF-8 ({defect.note})",
                f"write `$${pair[1:]}`, which the container sees as {shown(pair)}, or update to {defect.update}",
                value=value,
            )


def _pair(value: str) -> str:
    """Return the first `$` with the character that it breaks; empty if there is none."""
    for found in _EXPRESSION.finditer(value):
        if not (found["rest"] or "").isascii():
            return found[0]
    return ""
