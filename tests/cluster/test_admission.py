"""Test that `mpigen policy test` decides as the API server does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import pytest

from generator.checks.schema import schema_breaches
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.upstream.kubernetes.admission_policies.cases import Case, request_of, run_case
from generator.upstream.kubernetes.admission_policies.judge import Decision, judge
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from tests.cluster import trees
from tests.cluster.client import Client, RefusedError
from tests.cluster.control_plane import Cluster
from tests.cluster.policies import Said, installed, put, rights, type_warnings
from tests.cluster.trees import Deployed
from tests.policy_cases import FOLDERS, CaseFolder

pytestmark = pytest.mark.cluster
_PATIENCE = 20  # seconds, until what a policy reads has come to where it is asked
_ERROR = re.compile(r"( resulted in error| fails to evaluate): .*", re.DOTALL)
_DYNAMIC = {"vap-errors", "vap-facts", "vap-request-resource"}
"""Policies of the fixtures that read fields which the kinds do not have, on purpose, or `authorizer.requestResource`.

That the type checker does not know: apiserver v0.34.2 pkg/admission/plugin/policy/validating/typechecking.go
buildEnvSet.
"""
_DROPPED = {"1.33": {("PersistentVolumeClaim", "volumeAttributesClassName")}}
"""Minor version of Kubernetes → kinds and fields of their specs that the API server drops.

The feature gate VolumeAttributesClass is on by default since 1.34 (kubernetes v1.34.2 pkg/features/kube_features.go
VolumeAttributesClass).
"""


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest, admin: Client, on_the_cluster: list[Deployed]) -> Iterator[CaseFolder]:
    """Install each folder of policies, with the rights for all requests of its cases.

    An example goes first: it has cluster-wide objects with the names of those in the folders.
    """
    trees.remove_all(admin, on_the_cluster)
    read = CaseFolder.of(request.param)
    cases = list(chain(*read.files.values()))
    manifests = [each for each in read.manifests if _is_served(each, admin)]
    found = replace(read, manifests=(*manifests, *rights(admin, cases)))
    given = {each.identity: each for case in cases for each in case.given}
    with installed(admin, [*found.manifests, *given.values()]):
        yield found


def _is_served(manifest: Manifest, admin: Client) -> bool:
    """Return True if the API server serves the kind; older servers lack kinds for device claims."""
    try:
        admin.resource(str(manifest.body["apiVersion"]), manifest.kind)
    except (RefusedError, KeyError):
        if manifest.group != "resource.k8s.io":
            raise
        return False
    return True


def test_api_server_and_mpigen_decide_every_case_alike(folder: CaseFolder, cluster: Cluster) -> None:
    targets = {name: program.minor for name, program in cluster.versions.programs.items()}
    catalog, wrong, unknown = Catalog.bundled(targets), [], []
    for cases in folder.files.values():
        world = PolicyCluster([*folder.manifests, *cases[0].given], catalog)
        unknown += [case.name for case in cases if not _is_known(case, catalog)]
        asked = [case for case in cases if case.name not in unknown]
        wrong += [text for case in asked if (text := run_case(case, world).complaint)]  # the rights change nothing
        wrong += [text for case in asked if (text := _disagreement(cluster.admin, case, world))]
    assert not wrong, "\n".join(wrong)
    assert not unknown or catalog.targets != Catalog.bundled().targets, "every case is for the newest releases"


def test_the_api_server_reports_no_type_warnings(folder: CaseFolder, admin: Client) -> None:
    policies = [each.name for each in folder.manifests if each.kind == "ValidatingAdmissionPolicy"]
    found = {name: said for name in policies if (said := type_warnings(admin, name))}
    assert found.keys() - _DYNAMIC == set(), found


def _is_known(case: Case, catalog: Catalog) -> bool:
    """Return True if an older release has all fields of the request, and keeps them."""
    body = case.object or {}
    fields = {(body.get("kind", ""), field) for field in body.get("spec") or {}}
    if fields & _DROPPED.get(catalog.targets["kubernetes"], set()):
        return False
    found = (
        schema_breaches(Manifest(case.object or {}, ""), Engine(catalog))
        if case.operation in ("CREATE", "UPDATE")
        else ()
    )
    return not any(each.check == "schema/unknown-field" for each in found)


def _disagreement(admin: Client, case: Case, world: PolicyCluster) -> str:
    """Return the remaining difference after a while, or an empty string."""
    dry = replace(case, is_dry_run=case.operation != "CONNECT")
    ours = [each for each in judge(request_of(dry, world), world) if not each.holds]
    deadline = time.monotonic() + _PATIENCE
    while found := _difference(ours, theirs := _named_alike(put(admin, case), case)):
        if time.monotonic() > deadline:
            return f"{case.name}: {found}\n  ours: {ours}\n  theirs: {theirs}"
        time.sleep(0.3)
    return ""


def _named_alike(said: Said, case: Case) -> Said:
    """With the name that mpigen makes up instead of that of the API server."""
    generated = (case.object or {}).get("metadata", {}).get("generateName")
    if not generated:
        return said
    warned = {(policy, re.sub(rf"\b{generated}\w{{5}}\b", f"{generated}xxxxx", words)) for policy, words in said.warned}
    return replace(said, warned=frozenset(warned))


def _difference(ours: list[Decision], theirs: Said) -> str:
    if theirs.other:
        return f"refused otherwise: {theirs.other}"
    denied = {(each.policy, _words(each), each.reason) for each in ours if "Deny" in each.actions}
    if denied and (theirs.denied is None or not {theirs.denied, _without_cause(theirs.denied)} & denied):
        return "denied otherwise" if theirs.denied else "not denied"
    if theirs.denied and not denied:
        return "denied"
    warned = {(each.policy, each.message) for each in ours if _is_told(each)}
    return f"warned otherwise: {sorted(warned ^ theirs.warned)}" if warned != theirs.warned else ""


def _words(decision: Decision) -> str:
    """Return the decision, without the wording of CEL errors, which Go words differently."""
    return _ERROR.sub(r"\1", decision.message) if decision.is_error else decision.message


def _without_cause(denied: tuple[str, str, str]) -> tuple[str, str, str]:
    return denied[0], _ERROR.sub(r"\1", denied[1]), denied[2]


def _is_told(decision: Decision) -> bool:
    return "Warn" in decision.actions or ("Audit" in decision.actions and "Deny" not in decision.actions)
