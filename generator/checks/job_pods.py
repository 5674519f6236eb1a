"""trainjob/pod-security, trainjob/limit-range: TrainJobs whose pods the API server rejects after Kueue admits them.

The rules read TrainJobs whose runtime is in the files, and report only fields that the TrainJob sets. `mpigen
check-job` reports such pods as `trainjob/rejected`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from generator.checks.limit_ranges import WHY, find_late_violations, ranges_of
from generator.checks.objects import Objects, runtime_of
from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.facts.versions import minors
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.objects.namespace import is_openshift
from generator.objects.training import GROUP
from generator.upstream.compile import Compiled, compile_job, read_priorities
from generator.upstream.kubernetes.pod_security import find_violations, read_level


@dataclass(frozen=True)
class CompiledJob:
    """A TrainJob in the files, with the JobSet and the pods that controllers create for it."""

    manifest: Manifest
    compiled: Compiled

    @classmethod
    def read(cls, objects: Objects) -> Sequence[CompiledJob]:
        """Compile the TrainJobs whose runtime is in the files, if mpigen can compile them."""
        jobs = []
        for job in objects.of(GROUP, "TrainJob"):
            if runtime := runtime_of(job, objects):
                with suppress(SimulationError):  # other checks, and `check-job`, report the reasons
                    priorities = read_priorities(objects.of("scheduling.k8s.io", "PriorityClass"))
                    jobs.append(cls(job, compile_job(job, runtime, objects.targets, priorities)))
        return jobs

    @property
    def pods(self) -> Iterator[tuple[int, str, Body]]:
        """The first pod of each replicated job, with the index and the name of the replicated job."""
        for number, pod in sorted(dict(reversed(self.compiled.pods)).items()):
            yield number, mapping(self.compiled.job_set, "spec")["replicatedJobs"][number]["name"], pod

    def own_path(self, number: int, path: Path) -> Path | None:
        """Return the field of the TrainJob that sets a field of a pod; None if the runtime or a controller sets it."""
        origin = self.compiled.origin("Pod", number, path)
        return origin.path if origin and origin.manifest.kind == self.manifest.kind else None


@check("trainjob/pod-security", severity=ERROR, needs=Objects)
def pod_security(objects: Objects) -> Iterator[Breach]:
    """Report a patch of a TrainJob whose pods violate the Pod Security level of their namespace.

    `runtimePatches` can set fields that the Namespace forbids, such as `hostPath` volumes or a `securityContext`. Kueue
    does not read Pod Security. It admits the job, the API server rejects the pods, and the job holds its quota without
    running. Only the events of the Job show the message.

    The check needs the runtime and the Namespace in the files. On OpenShift, it reports only fields with forbidden
    values, because the SecurityContextConstraints set absent fields first. `runtime/pod-security` reports the pods of
    the runtime.

    Source: pod-security-admission v0.34.2 policy/registry.go checkRegistry.EvaluatePod
    """
    minor = int((objects.targets.get("kubernetes") or minors("kubernetes")[0]).partition(".")[2])
    sets_absent = is_openshift(objects.manifests)
    for job in objects.view(CompiledJob.read):
        namespace = objects.one("", "Namespace", job.manifest.namespace)
        level = read_level(namespace.body) if namespace else None
        if level is None or level.name == "privileged":
            continue
        for number, role, pod in job.pods:
            for violation in find_violations(pod, level, minor):
                path = job.own_path(number, violation.path)
                if path is not None and not (violation.is_unset and sets_absent):
                    yield Breach(
                        path,
                        f'the pods `{role}` violate PodSecurity "{level}" of Namespace `{job.manifest.namespace}`: '
                        f"{violation}",
                        WHY,
                        "remove this field, or change it as the message requires",
                        job.manifest,
                    )


@check("trainjob/limit-range", severity=ERROR, needs=Objects)
def limit_range(objects: Objects) -> Iterator[Breach]:
    """Report resources of a TrainJob that a LimitRange of its namespace rejects.

    Kueue compares the amounts of containers, and the requests of pods, with `max` and `min`: `quota/never-admitted`
    reports these. The API server also compares the limits of a whole pod, and the ratio of limit and request with
    `maxLimitRequestRatio`. So the API server rejects pods of a job that Kueue admits. The API server first applies the
    defaults of LimitRanges, and then rejects a request above a default limit.

    The check needs the runtime in the files. `runtime/limit-range` reports the resources of the runtime.

    Source: kubernetes v1.34.2 plugin/pkg/admission/limitranger/admission.go PodValidateLimitFunc
    """
    for job in objects.view(CompiledJob.read):
        ranges = ranges_of(job.manifest.namespace, objects)
        for number, role, pod in job.pods if ranges else ():
            for violation in find_late_violations(pod, job.compiled.job_set, job.manifest, ranges, objects):
                path = job.own_path(number, (*violation.path, "resources"))
                if path is not None:
                    yield Breach(
                        path,
                        f"a LimitRange of namespace `{job.manifest.namespace}` rejects the pods `{role}`: {violation}",
                        WHY,
                        "set requests and limits within the bounds of the LimitRange",
                        job.manifest,
                    )
