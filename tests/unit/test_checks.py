"""Each check finds its bad fixture, at its line, and passes the good one."""

from __future__ import annotations

import pytest

from generator.checks.finding import Finding
from generator.checks.objects import CHECKS as OBJECT_CHECKS
from generator.checks.run import check_rendered, check_text
from generator.checks.schema import CHECKS as SCHEMA_CHECKS
from generator.manifests import Manifest, write
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

GOOD = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: default
  namespace: team-a
spec:
  clusterQueue: team-a
  stopPolicy: None
"""
# check → how to spoil the good one, and where the finding belongs
BAD = {
    "yaml/unreadable": (("kind: LocalQueue", "kind: [LocalQueue"), (3, 9)),
    "schema/not-an-object": (("kind: LocalQueue\n", ""), (1, 1)),
    "schema/no-schema": (("v1beta2", "v1beta9"), (2, 7)),
    "schema/unknown-field": (("stopPolicy", "stopPolicies"), (8, 3)),
    "schema/missing-field": (("metadata:\n", "metadata:\n  ownerReferences: [{kind: X, name: x, uid: u}]\n"), (4, 21)),
    "schema/wrong-type": (("clusterQueue: team-a", "clusterQueue: 7"), (7, 17)),
    "schema/not-allowed": (("stopPolicy: None", "stopPolicy: Nones"), (8, 15)),
    "object/unnamed": (("  name: default\n", ""), (3, 1)),
}
ONLY_IN_A_RELEASE = {"object/duplicate", "object/no-namespace"}


def found(text: str) -> list[Finding]:
    return check_text(text.encode(), "queue.yaml", Engine(Catalog.bundled())).in_order()


def rendered(*bodies: dict[str, object]) -> list[Finding]:
    manifests = [Manifest(body, f"{number}.yaml") for number, body in enumerate(bodies)]
    return check_rendered(manifests, write(manifests), Catalog.bundled()).in_order()


def config_map(**metadata: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_the_good_fixture_is_good() -> None:
    assert found(GOOD) == []


def test_every_check_has_a_bad_fixture() -> None:
    assert {"yaml/unreadable", *SCHEMA_CHECKS, *OBJECT_CHECKS} == {*BAD, *ONLY_IN_A_RELEASE}


@pytest.mark.parametrize("check", BAD)
def test_a_bad_fixture_is_found_at_its_place_with_reason_and_fix(check: str) -> None:
    (before, after), place = BAD[check]
    assert before in GOOD
    (finding,) = found(GOOD.replace(before, after))
    assert (finding.check, (finding.line, finding.column)) == (check, place)
    assert finding.message
    assert finding.why
    assert finding.fix


def test_what_is_close_is_suggested() -> None:
    (finding,) = found(GOOD.replace("stopPolicy: None", "stopPolicy: Hould"))
    assert finding.fix == "did you mean `Hold`?"


def test_a_name_may_be_generated_and_a_review_needs_none() -> None:
    assert found(GOOD.replace("name: default", "generateName: queue-")) == []
    review = "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {}\n"
    assert found(review) == []


def test_an_object_that_is_there_twice_is_found_where_it_comes_again() -> None:
    here, there = config_map(name="a", namespace="x"), config_map(name="a", namespace="y")
    assert rendered(here, there) == []
    (finding,) = rendered(here, there, here)
    assert (finding.check, finding.file, finding.message) == ("object/duplicate", "2.yaml", "it is also in 0.yaml")


def test_a_namespaced_object_of_a_release_says_where_it_belongs() -> None:
    (finding,) = rendered(config_map(name="a"))
    assert (finding.check, finding.line) == ("object/no-namespace", 4)
    assert rendered({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}) == []
    assert found("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n") == []  # kubectl -n says it
