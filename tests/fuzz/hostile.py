"""Inputs that try to exhaust memory, time or the stack, each from a class of bugs in YAML readers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.fuzz.mutate import written

_DEEP = 1_200
READABLE = 7
"""The number of platforms that are valid YAML; they come first."""
_PLATFORM = "platform: p\nrelease: 1.0.0\npools:\n- {name: cpu, nodes: 40, allocatable: {cpu: 64, memory: 256Gi}}\n"


def _bomb(levels: int, width: int) -> str:
    lines = [f"a0: &a0 [{','.join('x' * width)}]"]
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


def _aliases_nested() -> str:
    lines = [f"a0: &a0 {'[' * 100}x{']' * 100}"]
    lines += [f"a{level}: &a{level} {'[' * 100}*a{level - 1}{']' * 100}" for level in range(1, 60)]
    return "\n".join(lines) + "\n"


def _texts() -> dict[str, str]:
    """Return texts that are hostile whatever they are read as."""
    return {
        "alias bomb": _bomb(9, 9),
        "aliases within the limit": _bomb(4, 20),
        "nested aliases": _aliases_nested(),
        "brackets": "x: " + "[" * 100_000,
        "deep flow": "x: " + "[" * 120 + "]" * 120,
        "digits": f"x: {'9' * 100_000}\nnodes: {'9' * 100_000}\n",
        "hexadecimal digits": f"x: 0x{'f' * 100_000}\n",
        "exponent": "x: 1e999999\ny: 1e-999999\nz: 1.5e99999999999999999999\n",
        "long key": f"? {'k' * 100_000}\n: x\n",
        "long text": f"x: {'t' * 1_000_000}\n",
        "null characters": "a: \0\n",
        "escaped null": 'platform: "a\\0b"\nkind: "a\\0b"\napiVersion: v1\nmetadata: {name: "a\\0b"}\n',
        "many documents": "---\na: b\n" * 5_000,
        "duplicate keys": "a: b\n" * 1000,
        "merges": "a: &a {x: 1}\nb: {<<: [*a, *a, *a], y: 2}\nc: {<<: 3}\n",
        "keys that are no texts": "1: a\n2.5: b\ntrue: c\nnull: d\n[1]: e\n",
        "timestamps": "a: 2026-01-01\nb: 2026-01-01T00:00:00Z\nc: 12:30:45\nd: !!timestamp 2026-01-01\n",
        "tags": "a: !!binary aGk=\nb: !!set {x}\nc: !!omap [a: b]\nd: !!python/object/apply:os.system [ls]\n",
        "directive": "%YAML 1.2\n---\na: b\n",
    }


@cache
def platforms() -> Mapping[str, bytes]:
    """Return platform files, name → text."""
    cohorts = [{"name": f"c{n}", **({"parent": f"c{n - 1}"} if n else {})} for n in range(_DEEP)]
    circle = [{**cohort, "parent": f"c{(n - 1) % 600}"} for n, cohort in enumerate(cohorts[:600])]
    tenants = [{"name": f"t{n}", "quota": {"cpu": 0}, "cohort": f"c{_DEEP - 1}"} for n in range(3)]
    wrong = [{"name": f"t{n}", "quota": {"gpu": 1}, "access": {"edit": ["nobody"]}} for n in range(1000)]
    several = [{"name": f"t{n}", "namespaces": ["same"], "quota": {"cpu": 0}} for n in range(500)]
    weighed = {"queues": {"fairSharing": True, "slack": False}, "cohorts": cohorts[::-1], "tenants": tenants}
    sections: dict[str, Any] = {
        "nested cohorts": {"cohorts": cohorts, "tenants": tenants},
        "nested cohorts that share fairly": weighed,
        "many pools": {"tenants": [{"name": f"t{n}", "quota": {"cpu": 0}, "borrow": {"cpu": 1}} for n in range(60)]},
        "cohorts in a circle": {"cohorts": circle, "tenants": [{"name": "t", "quota": {"cpu": 1}, "cohort": "c5"}]},
        "a thousand mistakes": {"tenants": wrong},
        "one namespace of all": {"tenants": several},
        "huge quantities": {"tenants": [{"name": "t", "quota": {"cpu": {"cpu": "1e99", "memory": "9E"}}}]},
    }
    made = {name: _PLATFORM.encode() + written([data]) for name, data in sections.items()}
    return {**made, **{name: (_PLATFORM + text).encode() for name, text in _texts().items()}}


@cache
def manifests() -> Mapping[str, bytes]:
    """Return manifests, name → text."""
    kueue = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    cohorts: list[Any] = [
        {**kueue, "kind": "Cohort", "metadata": {"name": f"c{n}"}, "spec": {"parentName": f"c{n - 1}"} if n else {}}
        for n in range(_DEEP)
    ]
    flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1}]}]
    queue: dict[str, Any] = {
        **kueue,
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"cohortName": f"c{_DEEP - 1}", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]},
    }
    nested: Any = {"apiVersion": "v1", "kind": "List", "items": []}
    for _ in range(50):
        nested = {"apiVersion": "v1", "kind": "List", "items": [nested]}
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    expressions = ["(" * 3000 + "true" + ")" * 3000, "x" * 100_000, "!" * 5000 + "true"]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "deep"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression} for expression in expressions],
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": 1, "ports": [{"containerPort": "x"}] * 2000}]},
    }
    json_text = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "n"}}
    made = {
        "nested cohorts": written([*cohorts, queue]),
        "nested lists": written([nested]),
        "deep expression": written([policy]),
        "thousands of mistakes": written([pod]),
        "deep json": written([{**json_text, "spec": {"config": "[" * 50_000}}]),
        "deep json that ends": written([{**json_text, "spec": {"config": "[" * 5_000 + "]" * 5_000}}]),
        "digits in json": written([{**json_text, "spec": {"config": '{"mtu": ' + "9" * 10_000 + "}"}}]),
    }
    return {**made, **{name: text.encode() for name, text in _texts().items()}}
