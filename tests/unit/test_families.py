"""Test families of the platform file: their facts, their runtimes, and runtimes that Python adds to an app.

tests/fixtures/broken/families*.txt have the messages of all mistakes.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from generator import App, MpiFamily, MpiRuntime, Platform, Role, Runtime
from generator.components.constructs import collect
from generator.errors import ConfigError
from generator.facts.families import FAMILIES
from generator.facts.names import CONTRACT, FRAMEWORK
from generator.jobs import contract
from generator.manifests import Body
from generator.runtimes.training_runtime import training_runtimes
from tests.conftest import small_platform
from tests.offers import offered, smoke_of
from tests.unit.test_runtimes import containers, variables

ACME: dict[str, Any] = {
    "name": "acme",
    "like": "openmpi",
    "title": "Acme Solver 4",
    "framework": "acme-solver",
    "image": "Acme Solver 4",
    "defaultImage": "registry.example.com/acme:4",
    "command": ["mpirun", "acme", "--case", "wing"],
    "devices": ["nvidia", "cpu"],
    "cpuRanks": 1,
    "environment": {"ACME_LICENSE": "27000@license", "NCCL_DEBUG": "INFO"},
    "limits": ["a license covers 64 ranks"],
}


def platform(*families: dict[str, Any], **runtime: Any) -> Platform:
    """Return the small platform with families, and one runtime on its CPU pool."""
    data = small_platform()
    data["families"] = [*families]
    data["runtimes"] = [{"name": "solver", "pool": "cpu", **runtime}]
    return Platform.model_validate(data)


def built(declared: Platform) -> Body:
    """Return the manifest of the runtime of a platform."""
    (runtime,) = declared.runtimes
    (body,) = training_runtimes(runtime, declared.pool(runtime.pool), declared.cluster)
    return body


def problems(change: Any) -> list[str]:
    """Return the problems of a change, without their files."""
    with pytest.raises(ConfigError) as caught:
        change()
    return [f"{problem.path}: {problem.message}; {problem.fix}" for problem in caught.value.problems]


@pytest.mark.parametrize("like", FAMILIES)
def test_a_family_without_further_fields_has_the_facts_of_its_like(like: str) -> None:
    family = MpiFamily.model_validate({"name": "acme", "like": like}).family
    assert replace(family, name=like, like="") == FAMILIES[like]


@pytest.mark.parametrize("like", [name for name, family in FAMILIES.items() if "cpu" in family.devices])
def test_a_family_without_further_fields_has_the_runtime_of_its_like(like: str) -> None:
    own = platform({"name": "acme", "like": like}, use="acme", image="registry.example.com/i:1")
    original = platform(use=like, image="registry.example.com/i:1")
    with_like, without = (built(each) for each in (own, original))
    assert json.loads(with_like["metadata"].pop("annotations")[CONTRACT])["like"] == like
    assert without["metadata"].pop("annotations")
    assert with_like == without
    ((mine,), (theirs,)) = own.runtimes, original.runtimes
    pool = own.pool("cpu")
    assert smoke_of(mine, pool, 3) == smoke_of(theirs, pool, 3)
    facts, expected = contract.runtime_facts(*offered(own, mine)), contract.runtime_facts(*offered(original, theirs))
    assert facts == {**expected, "family": "acme"}


def test_the_fields_of_a_family_replace_the_facts_of_its_like() -> None:
    declared = platform(ACME, use="acme", environment={"NCCL_DEBUG": "WARN"})
    body = built(declared)
    assert body["metadata"]["labels"][FRAMEWORK] == "acme-solver"
    assert {container["image"] for container in containers(body)} == {"registry.example.com/acme:4"}
    assert variables(body).items() >= {"ACME_LICENSE": "27000@license", "NCCL_DEBUG": "WARN"}.items()
    assert body["spec"]["mlPolicy"]["mpi"]["numProcPerNode"] == 1
    (runtime,) = declared.runtimes
    assert smoke_of(runtime, declared.pool("cpu"), 3)[:2] == ["mpirun", "python3"]
    text = [f"{topic}: {point}" for topic, point in contract.describe_runtime(*offered(declared, runtime))]
    text += [f"{topic}: {point}" for topic, point in contract.describe_family(runtime.family)]
    for line in (
        "family: acme: Acme Solver 4, like openmpi",
        "devices: cpu, nvidia",
        "devices: not amd: the family `acme` does not list this device",
        (
            "image: must have Acme Solver 4, a shell, ssh and /usr/sbin/sshd; "
            "registry.example.com/acme:4, if you name none"
        ),
        "limits: a license covers 64 ranks",
        "hosts: 2 by default, 1 rank on each, 57 cores for a rank",
        "example: mpirun acme --case wing",
    ):
        assert line in text
    assert any(line.startswith("variables: ") and "ACME_LICENSE" in line for line in text)


def test_a_family_with_software_of_its_own_has_no_default_image_of_its_like() -> None:
    own = {"name": "acme", "like": "openmpi", "image": "Acme Solver 4"}
    assert problems(lambda: Platform(**{**small_platform(), "families": [own], "runtimes": [RUNTIME]})) == [
        (
            "runtimes.solver: `image` is missing, and Open MPI on pool `cpu` has no default image; "
            "name an image with OpenSSH and Acme Solver 4"
        )
    ]


RUNTIME = {"name": "solver", "use": "acme", "pool": "cpu"}


def test_a_family_can_run_on_every_device_of_its_mpi() -> None:
    own = MpiFamily(name="fork", like="horovod-pytorch", devices=("amd", "cpu"))
    assert own.family.devices == ("cpu", "amd")
    assert own.family.unproven == {"amd": "mpigen does not run `horovod-pytorch` on it, and did not test it"}
    assert {*own.family.not_on} == {"nvidia", "nvidia-mig", "intel", "gaudi"}


def test_a_family_with_rank_variables_has_a_separate_launcher() -> None:
    body = built(platform({"name": "acme", "like": "openmpi", "rankVariables": True}, use="acme"))
    assert body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is False
    assert "bin/rank" in str(body)


def test_a_runtime_in_python_has_the_family_of_the_app() -> None:
    class Sized(MpiRuntime):
        def resources(self, role: Role) -> dict[str, str]:
            del role
            return {"cpu": "2"}

    app = App(platform(ACME))
    Sized(app, "python", runtime=Runtime(name="python", use="acme", pool="cpu"))
    (body,) = [each.body for each in collect(app) if each.body["metadata"]["name"] == "python"]
    assert body["metadata"]["labels"][FRAMEWORK] == "acme-solver"
    assert {container["image"] for container in containers(body)} == {"registry.example.com/acme:4"}


def test_a_runtime_in_python_with_an_unknown_family_is_an_error() -> None:
    app = App(platform(ACME))
    assert problems(lambda: MpiRuntime(app, "x", runtime=Runtime(name="x", use="acne", pool="cpu"))) == [
        "x.use: there is no family `acne`; did you mean `acme`?"
    ]


def test_a_copy_of_a_platform_has_the_new_family() -> None:
    declared = platform(ACME, use="acme")
    (runtime,) = declared.replace(families=[MpiFamily(name="acme", like="mpich", default_image="i:1")]).runtimes
    assert (runtime.family.mpi, runtime.family.title) == ("mpich", "MPICH")
    assert problems(lambda: declared.replace(families=()))[0].startswith(
        "runtimes.solver.use: there is no family `acme`;"
    )
    assert declared.replace() == declared
    assert runtime.declared == declared.runtimes[0].declared


def test_only_a_platform_with_families_has_another_digest() -> None:
    assert platform().digest() == platform().replace(families=()).digest()
    assert platform().digest() != platform(ACME).digest()
    assert platform(ACME).digest() == platform(dict(reversed(ACME.items()))).digest()


def test_every_field_of_a_family_is_a_fact() -> None:
    """A field without a fact would have no effect."""
    facts = {field.name for field in fields(FAMILIES["openmpi"])} | {"label", "own_image"}
    assert {name for name in MpiFamily.model_fields if name not in facts} == set()
