"""Runtimes and TrainJobs to compile, and the normal form in which compiled objects equal the objects of controllers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import yaml

from generator.facts.names import UNKNOWN_UID
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings
from generator.objects.patch import set_values
from generator.schemas.catalog import Catalog
from generator.schemas.updates import normalize_built_in, normalize_custom, normalize_go_type
from generator.upstream.compile import Compiled, compile_job
from tests.cluster.versions import versions
from tests.conftest import ROOT

FOLDER = ROOT / "tests/cluster/fixtures"
ANSWERS = FOLDER / "compile-answers.yaml"
COMPLETE = ("bare-nodes", "mpi-plain", "patch-all", "pipeline-data", "separate-nodes", "torch-plain")
"""Cases whose Jobs and Pods are recorded too."""
NAMESPACE = "compiled"
TARGETS = {
    name: {part: versions(name)[part].minor for part in ("kubernetes", "trainer", "jobset")}
    for name in ("default", "previous")
}
NODE = "template.spec.replicatedJobs[0].template.spec.template.spec"
"""The path of the pod spec of the first replicated job in `spec` of a runtime, and in a patch."""
PATCH = "spec.runtimePatches[0].trainingRuntimeSpec"
REJECTED = {
    "ports": ("mpi-plain", f"runtime spec.{NODE}.containers[0].ports", [{"containerPort": 1}, {"containerPort": 3}]),
    "protocols": (
        "mpi-plain",
        f"runtime spec.{NODE}.containers[0].ports",
        [{"containerPort": 53, "name": "a"}, {"containerPort": 53, "name": "b", "protocol": "UDP"}],
    ),
    "implementation": ("mpi-plain", "runtime spec.mlPolicy.mpi.mpiImplementation", ""),
    "initializer": ("mpi-plain", "job spec.initializer.dataset", {}),
    "job": ("patch-selector", f"job {PATCH}.template.spec.replicatedJobs[0].name", "nodes"),
    "container": ("patch-env", f"job {PATCH}.{NODE}.containers[0].name", "side"),
}
"""Changes because of which no Job of `node` exists: name → case, changed field, value."""
_ALIAS = 60  # characters of JSON
_TRAINER = "trainer.kubeflow.org/v1alpha1"
Objects = dict[str, Body]
"""Kind and name → normal form. The pods of a Job have its name and their index."""


@dataclass(frozen=True, slots=True)
class Case:
    """A TrainJob and its runtime."""

    job: Manifest
    runtime: Manifest

    def compiled(self, name: str) -> Compiled:
        """Return the compiled objects for a set of releases."""
        return compile_job(self.job, self.runtime, TARGETS[name])


@cache
def cases(name: str, *, with_catalogue: bool = True) -> Mapping[str, Case]:
    """Return the cases that a set of releases accepts: of compile.yaml, and a job on each runtime of the catalogue."""
    read = yaml.safe_load((FOLDER / "compile.yaml").read_text())
    runtimes = {
        key: _runtime(key, {field: spec[field] for field in spec if field != "only"})
        for key, spec in read["runtimes"].items()
    }
    written = {key: job for key, job in read["jobs"].items() if name in job.get("only", (name,))}
    found = {key: Case(_job(key, job), runtimes[job["runtime"]]) for key, job in written.items()}
    for file in sorted(ROOT.glob("output/catalogue/cluster/runtimes/*.yaml")) if with_catalogue else ():
        runtime = _runtime(file.stem, yaml.safe_load(file.read_text())["spec"])
        found[file.stem] = Case(_job(file.stem, {"runtime": file.stem, "spec": {"trainer": {"numNodes": 3}}}), runtime)
    return found


def changed(case: Case, place: str, value: Any, namespace: str = NAMESPACE) -> Case:
    """Return a case with one field changed, such as `runtime spec.podGroupPolicy`."""
    owner, _, path = place.partition(" ")
    changes: dict[str, Body] = {key: {"metadata.namespace": namespace} for key in ("job", "runtime")}
    changes[owner][path] = value
    job = replace(case.job, body=set_values(case.job.body, changes["job"]))
    return Case(job, replace(case.runtime, body=set_values(case.runtime.body, changes["runtime"])))


def _runtime(name: str, spec: Body) -> Manifest:
    return _manifest("TrainingRuntime", name, spec)


def _manifest(kind: str, name: str, spec: Body) -> Manifest:
    body = {"apiVersion": _TRAINER, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    return Manifest(copy.deepcopy(body), "compile.yaml")


def _job(name: str, job: Body) -> Manifest:
    patches = [
        {"manager": f"tests.mpigen.dev/{number}", "trainingRuntimeSpec": {"template": _template(patch)}}
        for number, patch in enumerate(job.get("patches", ()))
    ]
    spec = {"runtimeRef": {"name": job["runtime"], "kind": "TrainingRuntime"}, **job.get("spec", {})}
    return _manifest("TrainJob", name, {**spec, **({"runtimePatches": patches} if patches else {})})


def _template(patch: Body) -> Body:
    """Return the patch of a template: `set` is its metadata, `job` has metadata of Jobs, the rest are pods."""
    jobs = [{"name": name, "template": {"metadata": metadata}} for name, metadata in patch.get("job", {}).items()]
    pods = {name: pod for name, pod in patch.items() if name not in ("set", "job")}
    jobs += [{"name": name, "template": {"spec": {"template": pod}}} for name, pod in pods.items()]
    metadata = {"metadata": patch["set"]} if "set" in patch else {}
    return {**metadata, **({"spec": {"replicatedJobs": jobs}} if jobs else {})}


def normal_forms(bodies: Iterable[Body], name: str) -> Objects:
    """Return the objects of one TrainJob in normal form."""
    forms = {}
    for body in bodies:
        form = _normal_form(body, name)
        metadata = mapping(body, "metadata")
        index = mapping(metadata, "annotations").get("batch.kubernetes.io/job-completion-index")
        job = mapping(metadata, "labels").get("job-name")
        key = f"{job} {index or ''}".strip() if body["kind"] == "Pod" else metadata["name"]
        forms[f"{body['kind']} {key}"] = form
    return forms


def _normal_form(body: Body, name: str) -> Body:
    """Return an object without what only a cluster adds, in this order; each step names what it removes."""
    form = copy.deepcopy(body)
    _without_server_fields(form)
    _without_uids(form)
    for step in (_without_contents, _without_pod_admission, _without_addresses, _without_zero_divisors):
        step(form)
    return _with_defaults(form, name)


def _without_server_fields(body: Body) -> None:
    """Remove what the API server keeps for itself: the status and the bookkeeping of metadata."""
    body.pop("status", None)
    metadata = body["metadata"]
    kept = ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
    body["metadata"] = {key: metadata[key] for key in kept if metadata.get(key)}
    if metadata.get("generateName"):
        body["metadata"].pop("name", None)


def _without_uids(body: Body) -> None:
    """Replace UIDs, which the API server chooses."""
    for reference in mappings(body["metadata"].get("ownerReferences")):
        reference["uid"] = UNKNOWN_UID
    for holder in (body["metadata"], mapping(body, "spec", "template", "metadata")):
        for kind in ("labels", "annotations"):
            for key in mapping(holder, kind):
                if key.endswith(("controller-uid", "jobset-uid")):
                    holder[kind][key] = UNKNOWN_UID
    for key in mapping(body, "spec", "selector", "matchLabels"):
        body["spec"]["selector"]["matchLabels"][key] = UNKNOWN_UID


def _without_contents(body: Body) -> None:
    """Empty the ssh key, which is random, and the snapshot of the runtime, which has its UID and its times."""
    if body["kind"] == "Secret" or body["metadata"].get("name", "").endswith("-runtime-snapshot"):
        body["data"] = dict.fromkeys(body["data"], "")


_TOKEN = "kube-api-access-"
_ADDED = {
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "serviceAccount": "default",
    "serviceAccountName": "default",
}


def _without_pod_admission(body: Body) -> None:
    """Remove what the scheduler and the plugins ServiceAccount, Priority and DefaultTolerationSeconds add to pods."""
    if body["kind"] != "Pod":
        return
    spec = body["spec"]
    for key in ("priority", "nodeName"):
        spec.pop(key, None)
    for key, value in _ADDED.items():
        if spec.get(key, value) == value:
            spec.pop(key, None)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    spec["volumes"] = [volume for volume in spec.get("volumes", ()) if not volume["name"].startswith(_TOKEN)]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        mounts = container.get("volumeMounts", ())
        container["volumeMounts"] = [mount for mount in mounts if not mount["name"].startswith(_TOKEN)]
    added = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    spec["tolerations"] = [one for one in spec.get("tolerations", ()) if one.get("key") not in added]


def _without_addresses(body: Body) -> None:
    """Remove what the API server assigns to a Service."""
    if body["kind"] == "Service":
        assigned = ("clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity")
        body["spec"] = {key: value for key, value in body["spec"].items() if key not in assigned}


def _without_zero_divisors(value: Any) -> None:
    """Remove the divisor 0 of resourceFieldRef, which Go writes for an absent one."""
    if isinstance(value, dict) and value.get("divisor") == "0":
        del value["divisor"]
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _without_zero_divisors(child)


def _with_defaults(body: Body, name: str) -> Body:
    """Return an object in stored form: with defaults, equal amounts in one spelling, and without empty values."""
    schema, cron = (_schema(*kind, name) for kind in ((body["apiVersion"], body["kind"]), ("batch/v1", "CronJob")))
    if body["kind"] == "JobSet":
        form = normalize_custom(body, schema, schema)
        for each in form["spec"]["replicatedJobs"]:
            each["template"] = normalize_go_type(each["template"], "batch.v1.JobTemplateSpec", cron)
    else:
        if body["kind"] == "Job":
            _default_job(body["spec"])
        form = normalize_built_in(body, schema)
    result: Body = _without_empty(form)
    return result


def _default_job(spec: Body) -> None:
    """Set the defaults of a Job that the table of defaults lacks.

    Source: kubernetes v1.34.2 pkg/apis/batch/v1/defaults.go SetDefaults_Job
    """
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        items = {key: _without_empty(child) for key, child in value.items()}
        return {
            key: child for key, child in items.items() if child not in (None, "", [], {}) or key in ("emptyDir", "data")
        }
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


@cache
def _schema(api_version: str, kind: str, name: str) -> Any:
    schema = Catalog.bundled(TARGETS[name]).schema(api_version, kind)
    assert schema is not None, kind
    return schema


def without_shared_service(ours: Objects, real: Objects) -> Objects:
    """Return the compiled objects without a Service that another JobSet with the same subdomain owns."""
    return {key: body for key, body in ours.items() if key in real or not key.startswith("Service ")}


def recorded_objects(case: str, objects: Objects) -> Objects:
    """Return the objects to record. Jobs and Pods repeat the JobSet, so only COMPLETE cases record them."""
    return {key: body for key, body in objects.items() if case in COMPLETE or key.split()[0] not in ("Job", "Pod")}


def record(name: str, found: Mapping[str, Objects]) -> None:
    """Write the objects of real controllers for a set of releases. Equal parts become aliases in the YAML file."""
    written = cases(name, with_catalogue=False)
    kept = {case: recorded_objects(case, objects) for case, objects in found.items() if case in written}
    everything = {**(read_answers() if ANSWERS.is_file() else {}), name: kept}
    ANSWERS.write_text(yaml.dump(_shared(everything, {}), Dumper=yaml.CSafeDumper, width=150, default_flow_style=None))


def _shared(value: Any, known: dict[str, Any]) -> Any:
    """Return a value in which equal parts are one object, if they are longer than an alias."""
    if isinstance(value, dict):
        value = {key: _shared(child, known) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_shared(child, known) for child in value]
    key = json.dumps(value, sort_keys=True)
    return known.setdefault(key, value) if isinstance(value, dict | list) and len(key) > _ALIAS else value


@cache
def read_answers() -> Mapping[str, Mapping[str, Objects]]:
    """Return set of releases → case → the recorded objects of real controllers."""
    answers: Mapping[str, Mapping[str, Objects]] = yaml.load(ANSWERS.read_text(), yaml.CSafeLoader)
    return answers


def differences(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yield the fields in which two normal forms differ."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted({*real, *ours}):
            below = f"{path}.{key}" if path else key
            if key not in real or key not in ours:
                side, owner = (ours, "compiled") if key in ours else (real, "real")
                yield f"{below}: only {owner}: {json.dumps(side[key])[:200]}"
            else:
                yield from differences(real[key], ours[key], below)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, pair in enumerate(zip(real, ours, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif real != ours:
        yield f"{path}: real {json.dumps(real)[:300]}, compiled {json.dumps(ours)[:300]}"
