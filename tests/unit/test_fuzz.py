"""Test a sample of the fuzzer's cases and its former bugs; `python -m tests.fuzz` runs 20,000 cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

from generator.checks.fabric.operators import _functions_of
from generator.cli.main import run
from generator.config.policy_cases import load_cases
from generator.documents.credentials import is_placeholder
from generator.documents.scalars import int64
from generator.errors import suggest
from generator.objects.patch import parse_path
from generator.release.history import next_version
from generator.upstream.kubernetes.cel.library import _parse_quantity
from generator.upstream.kubernetes.selectors import _number
from tests.conftest import ROOT
from tests.fuzz.case import case
from tests.fuzz.mutate import written
from tests.fuzz.run import execute

MANY = "9" * 5_000
"""Digits: more than Python reads as an integer."""
KUEUE = "kueue.x-k8s.io/v1beta2"


@pytest.mark.parametrize("kind", ["platform", "manifest"])
@pytest.mark.parametrize("first", [0, 25, 2_000])
def test_sampled_fuzz_cases_succeed(kind: str, first: int) -> None:
    """Times are not compared, because tests may run on a busy machine."""
    for number in range(first, first + 25):
        outcome = execute(kind, number, case(7, kind, number), has_limits=False)
        assert not outcome.failure, outcome


def test_fuzz_cases_are_reproducible() -> None:
    made = [case(3, kind, 2_000) for kind in ("platform", "manifest")]
    again = [case(3, kind, 2_000) for kind in ("platform", "manifest")]
    assert made == again


@pytest.mark.slow
def test_the_fuzzer_reports_its_cases() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        "--seed",
        "5",
        "--platforms",
        "60",
        "--manifests",
        "60",
        "--synth",
        "4",
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "124 cases in" in ran.stdout, ran.stdout + ran.stderr
    assert "exit 3" not in ran.stdout


def printed(folder: Path, documents: list[Any], *arguments: str) -> tuple[int, str]:
    """Run a command on manifests."""
    (folder / "a.yaml").write_bytes(written(documents))
    with click.testing.CliRunner().isolation() as streams:
        code = run([*arguments, str(folder / "a.yaml")])
        return code, (streams[0].getvalue() + streams[1].getvalue()).decode()


FLAVOR: dict[str, Any] = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}}
POLICY: dict[str, Any] = {"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy"}
NETWORK: dict[str, Any] = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
NUMBERS = {
    "the nodes of a flavor": {**FLAVOR, "metadata": {"name": "f", "annotations": {"mpigen.dev/nodes": MANY}}},
    "the hosts per job of a namespace": {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "x", "annotations": {"mpigen.dev/hosts-per-job": MANY}},
    },
    "the functions of a NIC": {
        **POLICY,
        "metadata": {"name": "p", "namespace": "sriov-network-operator"},
        "spec": {
            "resourceName": "a",
            "numVfs": 8,
            "nodeSelector": {"a": "b"},
            "nicSelector": {"pfNames": [f"ens1#{MANY}-{MANY}", f"ens1#0-{MANY}"]},
        },
    },
    "the mask of an address": {
        **NETWORK,
        "metadata": {"name": "n", "namespace": "x"},
        "spec": {
            "config": f'{{"cniVersion": "1.0.0", "type": "macvlan", "ipam": {{"type": "whereabouts", '
            f'"range": "10.0.0.0/{MANY}", "node_slice_size": "/{MANY}"}}}}'
        },
    },
}


@pytest.mark.parametrize("what", NUMBERS)
@pytest.mark.parametrize("command", ["validate", "queues --release", "can-i"])
def test_huge_integers_are_not_internal_errors(what: str, command: str, tmp_path: Path) -> None:
    code, output = printed(tmp_path, [NUMBERS[what]], *command.split())
    assert code in (0, 1, 2), output


def test_a_mount_with_a_list_as_its_name_is_reported(tmp_path: Path) -> None:
    container = {"name": "a", "image": "a:1", "volumeMounts": [{"name": ["x"], "mountPath": "/x"}]}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "x", "namespace": "y"}}
    body["spec"] = {"replicatedJobs": [{"name": "node", "template": template}]}
    code, output = printed(tmp_path, [body], "validate")
    assert code == 1
    assert "volumeMounts[0].name" in output


def test_digits_are_an_integer_of_at_most_64_bits() -> None:
    assert [int64(text) for text in ("0", "007", "9" * 19)] == [0, 7, int("9" * 19)]
    assert [int64(text) for text in ("", "-1", "1.0", "٣", "²", "9" * 20, MANY)] == [None] * 7


def test_every_digit_parser_handles_huge_numbers() -> None:
    assert _functions_of(f"a#0-{MANY}") == (-1, -1)
    assert _number(MANY) != _number(MANY)  # not a number, which is no less and no more than any
    assert (_number("-7"), _number("7")) == (-7, 7)
    assert next_version(f"1.0.{MANY}") == f"1.0.1{'0' * len(MANY)}"
    with pytest.raises(ValueError, match="is not a path"):
        parse_path(f"spec.containers[{MANY}]")


@pytest.mark.parametrize("exponent", ["1e2000000000", "1e-2000000000", f"1e{MANY}", f"1e-{MANY}"])
def test_a_quantity_with_a_huge_exponent_is_not_computed(exponent: str) -> None:
    with pytest.raises(OverflowError, match="mpigen does not compute quantities with so many digits"):
        _parse_quantity(exponent)


def test_case_bases_may_be_nested_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    bases: dict[str, Any] = {"b0": {"object": body, "set": {"data.b0": "x"}}}
    bases |= {f"b{n}": {"base": f"b{n - 1}", "set": {"metadata.name": f"x{n}"}} for n in range(1, 1_500)}
    data = {"cases": [{"name": "deep", "create": {"base": "b1499"}, "expect": "accepted"}], "bases": bases}
    (found,) = load_cases(tmp_path / "cases.yaml", written([data]))
    assert found.object is not None
    assert (found.object["metadata"]["name"], found.object["data"]) == ("x1499", {"b0": "x"})


def test_excess_findings_are_counted(tmp_path: Path) -> None:
    code, output = printed(tmp_path, [{"a": "b"}] * 1_200, "validate")
    assert (code, output.count("schema/not-an-object")) == (1, 1)
    assert "and 1,197 more; pass `--format json` to see all" in output
    _, report = printed(tmp_path, [{"a": "b"}] * 1_200, "validate", "--format", "json")
    assert report.count('"check": "schema/not-an-object"') == 1_200


def test_excess_problems_are_counted(tmp_path: Path) -> None:
    tenants = [{"name": f"t{n}", "quota": {"gpu": 1}} for n in range(1_200)]
    pools = [{"name": "cpu", "nodes": 4, "allocatable": {"cpu": 64, "memory": "256Gi"}}]
    file = tmp_path / "platform.yaml"
    file.write_bytes(written([{"platform": "p", "release": "1.0.0", "pools": pools, "tenants": tenants}]))
    with click.testing.CliRunner().isolation() as streams:
        assert run(["runtimes", "--release", str(file)]) == 2
        output = streams[1].getvalue().decode()
    assert output.count("\n") == 1_001
    assert output.endswith("error: and 200 more problems; fix these first\n")


@pytest.mark.parametrize("unit", ["{{", "${", "$(", "<a", "{{ }", "a", "\n"])
def test_a_long_text_is_searched_in_linear_time(unit: str) -> None:
    """A pattern that backtracks at each `{{` would take hours."""
    assert not is_placeholder(f"x{unit * 500_000}x")


def test_a_placeholder_is_detected_anywhere_in_a_text() -> None:
    assert all(is_placeholder(text) for text in ("{{ x }}", "a {{ b }} c", "{{{ x }}", "{{ {{ x }}", "\n{{\n}}\n"))
    assert not is_placeholder("}} sEcReT1234 {{")


def test_suggestions_from_many_names_are_not_listed() -> None:
    names = [f"team-{n}" for n in range(1_000)] + ["vision"]
    assert suggest("visoin", names) == "did you mean `vision`?"
    assert suggest("robotics", names) == "write one of the 1,001 that are declared, such as team-0"
