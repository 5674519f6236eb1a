"""Test the hooks of MpiRuntime: the types of their values, what they must keep, and methods that are no hooks.

tests/fixtures/runtimes/hooks.diff has the manifests of a runtime that overrides all hooks.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import generator
from generator import App, Container, MpiRuntime, Platform, Role, Runtime, Volume, judge
from generator.components.constructs import collect
from generator.errors import ConfigError, ExitCode
from generator.facts.table import read_table
from tests.conftest import small_platform

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def app() -> App:
    """Return the app of the small platform."""
    return App(Platform.model_validate(small_platform()))


def create(app: App, body: str, **options: object) -> MpiRuntime:
    """Create a runtime whose class has this body, in line 2 of `fleet.py`."""
    number = next(_NUMBERS)
    defined: dict[str, Any] = {name: getattr(generator, name) for name in dir(generator) if not name.startswith("_")}
    text = f"class Mine(MpiRuntime):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    exec(compile(text, "fleet.py", "exec"), defined)
    runtime: MpiRuntime = defined["Mine"](
        app, f"mine-{number}", runtime=Runtime.model_validate({"name": f"mine-{number}", "pool": "cpu", **options})
    )
    return runtime


def jobs(component: MpiRuntime) -> dict[str, Any]:
    """Return name → replicated job of a runtime."""
    body = component.manifests[0].body
    return {job["name"]: job["template"] for job in body["spec"]["template"]["spec"]["replicatedJobs"]}


WRONG = {
    # Types
    "None instead of a list": (
        "def sidecars(self, role): pass",
        ["fleet.py:2: Mine.sidecars: the value is None, not a list of `Container`; return a list of `Container`"],
    ),
    "a dict instead of a Container": (
        "def init_containers(self, role): return [{'name': 'stage'}]",
        ["fleet.py:2: Mine.init_containers[0]: the value is a `dict`, not a `Container`; return a `Container`"],
    ),
    "one Container instead of a list": (
        "def sidecars(self, role): return Container('log')",
        ["fleet.py:2: Mine.sidecars: the value is a `Container`, not a list of `Container`"],
    ),
    "a string as a command": (
        "def sidecars(self, role): return [Container('log', command='sleep 1')]",
        ["fleet.py:2: Mine.sidecars[0].command: the value is `sleep 1`, not a list of strings"],
    ),
    "a number as a variable": (
        "def environment(self): return {'LEVEL': 3}",
        ["fleet.py:2: Mine.environment.LEVEL: the value is `3`, not a string or a `SecretKey` or a `ConfigMapKey`; "],
    ),
    "a field of the pod for all ranks": (
        "def environment(self): return {'LEVEL': PodField('metadata.name')}",
        ["fleet.py:2: Mine.environment.LEVEL: the value is a `PodField`, not a string"],
    ),
    "a number as a key": (
        "def environment(self): return {3: 'x'}",
        ["fleet.py:2: Mine.environment: the key `3` is not a string; write strings as keys"],
    ),
    "NaN": (
        "def pod(self, role): return Pod(fields={'x': [float('nan')]})",
        ["fleet.py:2: Mine.pod.fields.x[0]: `nan` is not a number that JSON can represent; write a finite number"],
    ),
    "a date": (
        "def volumes(self):\n    import datetime\n    return [Volume('x', {'emptyDir': datetime.date.today()}, '/x')]",
        ["fleet.py:2: Mine.volumes[0].source.emptyDir: the value is a `date`, not plain data; use strings"],
    ),
    "None in plain data": (
        "def job(self, role): return Job(fields={'x': None})",
        ["fleet.py:2: Mine.job.fields.x: the value is None, not plain data"],
    ),
    "a truth value as a number": (
        "def security(self, role): return Security(fs_group=True)",
        ["fleet.py:2: Mine.security.fs_group: the value is `true`, not an integer or None"],
    ),
    "a dict instead of a Probe": (
        "def sidecars(self, role): return [Container('log', liveness_probe={'port': 1})]",
        ["fleet.py:2: Mine.sidecars[0].liveness_probe: the value is a `dict`, not a `Probe` or None"],
    ),
    "a wrong value in a probe": (
        "def sidecars(self, role): return [Container('log', liveness_probe=Probe(port='http'))]",
        ["fleet.py:2: Mine.sidecars[0].liveness_probe.port: the value is `http`, not an integer or None"],
    ),
    "a class instead of an object": (
        "def pod(self, role): return Pod",
        ["fleet.py:2: Mine.pod: the value is a `type`, not a `Pod`; return a `Pod`"],
    ),
    "an endless generator": (
        "def sidecars(self, role):\n    while True: yield Container('log')",
        ["fleet.py:2: Mine.sidecars: the list has more than 1000 items; return a shorter list"],
    ),
    # Failures
    "an exception": (
        "def pod(self, role):\n    team = {}\n    return team['name']",
        ["fleet.py:4: Mine.pod: KeyError: 'name'; fix this method"],
    ),
    "a generator that raises": (
        "def sidecars(self, role):\n    yield Container('log')\n    raise ValueError('no log')",
        ["fleet.py:4: Mine.sidecars: ValueError: no log; fix this method"],
    ),
    "a missing argument of a value": (
        "def sidecars(self, role): return [Container()]",
        ["fleet.py:2: Mine.sidecars: TypeError: Container.__init__() missing 1 required positional argument: 'name'"],
    ),
    "an unknown argument of a value": (
        "def pod(self, role): return Pod(tolerate=[])",
        ["fleet.py:2: Mine.pod: TypeError: Pod.__init__() got an unexpected keyword argument 'tolerate'"],
    ),
    "an attribute that is set later": (
        "def environment(self): return {'A': self.level}",
        ["fleet.py:2: Mine.environment: AttributeError: 'Mine' object has no attribute 'level'; fix this method"],
    ),
    "an exit": (
        "def environment(self): raise SystemExit(0)",
        ["fleet.py:2: Mine.environment: SystemExit: 0; fix this method"],
    ),
    "an exception that is no Exception": (
        "def environment(self): raise BaseException('now')",
        ["fleet.py:2: Mine.environment: BaseException: now; fix this method"],
    ),
    "a method without the role": (
        "def sidecars(self): return []",
        [
            (
                "fleet.py:2: Mine.sidecars: mpigen calls `sidecars(role)`, and this method has other parameters; "
                "write `def sidecars(self, role)`"
            )
        ],
    ),
    "a value instead of a method": (
        "sidecars = ()\ndef environment(self): return {}",
        ["fleet.py:3: Mine.sidecars: `sidecars` is a list, not a method; write `def sidecars(self, role)`"],
    ),
    "several problems": (
        "def environment(self): return []\ndef pod(self, role): return None\ndef side_cars(self): pass",
        [
            "fleet.py:4: Mine.side_cars: MpiRuntime has no hook `side_cars`",
            "fleet.py:2: Mine.environment: the value is a `list`, not a mapping of names to strings",
            "fleet.py:3: Mine.pod: the value is None, not a `Pod`",
        ],
    ),
    # Names
    "a taken container": (
        "def init_containers(self, role): return [Container('prepare')]",
        [
            "fleet.py:2: Mine.init_containers[0]: `prepare` is the name of a container that mpigen adds to the worker ",
            "fleet.py:2: Mine.init_containers[0]: `prepare` is the name of a container that mpigen adds to the l",
        ],
    ),
    "two containers of one name": (
        (
            "def init_containers(self, role): return [Container('a')]\n"
            "def sidecars(self, role): return [Container('a')] if role.name == 'node' else []"
        ),
        ["fleet.py:3: Mine.sidecars[0]: the worker pod already has a container `a`; give each container its own name"],
    ),
    "the main container as a sidecar": (
        "def sidecars(self, role): return [Container('node')] if role.name == 'node' else []",
        ["fleet.py:2: Mine.sidecars[0]: `node` is the name of a container that mpigen adds to the worker pod; "],
    ),
    "a taken volume": (
        "def volumes(self): return [Volume('run', {'emptyDir': {}}, '/x')]",
        ["fleet.py:2: Mine.volumes[0]: `run` is the name of a volume that mpigen or Trainer adds to pods"],
    ),
    "a name with two sources": (
        "def volumes(self): return [Volume('a', {'emptyDir': {}}, '/x'), Volume('a', {'emptyDir': {'x': 1}}, '/y')]",
        ["fleet.py:2: Mine.volumes[1]: two volumes with different sources have the name `a`"],
    ),
    "two sources": (
        "def volumes(self): return [Volume('a', {'emptyDir': {}, 'configMap': {'name': 'x'}}, '/x')]",
        ["fleet.py:2: Mine.volumes[0]: the source of volume `a` has 2 fields; write one source"],
    ),
    "an invalid name of a variable": (
        "def environment(self): return {'A-B': ''}",
        ["fleet.py:2: Mine.environment: `A-B` is not the name of a variable"],
    ),
    # Kept parts
    "the mounts of mpigen": (
        "def volumes(self): return [Volume('a', {'emptyDir': {}}, '/run/mpi')]",
        [
            "fleet.py:2: Mine.volumes[0]: a volume at `/run/mpi` conflicts with the volume at this path",
            "fleet.py:2: Mine.volumes[0]: the container already has a mount at `/run/mpi`",
        ],
    ),
    "the ssh key": (
        (
            "def containers(self, role):\n"
            "    return [Container('node', volumes=[Volume('a', {'emptyDir': {}}, '/home/mpiuser/.ssh')])]"
        ),
        ["fleet.py:2: Mine.containers[0].volumes[0]: a volume at `/home/mpiuser/.ssh` "],
    ),
    "a relative mount": (
        "def volumes(self): return [Volume('a', {'emptyDir': {}}, 'x')]",
        ["fleet.py:2: Mine.volumes[0]: a volume at `x` is not an absolute path without a slash at the end"],
    ),
    "two mounts at one path": (
        (
            "def sidecars(self, role):\n"
            "    mounts = [Volume(name, {'emptyDir': {}}, '/x') for name in 'ab']\n"
            "    return [Container('log', volumes=mounts)]"
        ),
        ["fleet.py:2: Mine.sidecars[0].volumes[1]: the container already has a mount at `/x`"],
    ),
    "the hostfile": (
        "def environment(self): return {'OMPI_MCA_orte_default_hostfile': '/x'}",
        ["fleet.py:2: Mine.environment: Trainer sets `OMPI_MCA_orte_default_hostfile`, and ignores this value"],
    ),
    "the home directory": (
        "def containers(self, role): return [Container('node', env={'HOME': '/root'})]",
        [
            "fleet.py:2: Mine.containers[0].env: mpigen sets `HOME`, so that ranks find each other; remove this",
            "fleet.py:2: Mine.containers[0].env: the main container already has a variable `HOME`; return the ",
        ],
    ),
    "the command of sshd": (
        "def containers(self, role): return [Container('node', command=['sleep', '1'])] if role.name == 'node' else []",
        ["fleet.py:2: Mine.containers[0].command: a hook must not set `command`: the command starts sshd on port 2222"],
    ),
    "the command of the launcher": (
        "def containers(self, role): return [Container('node', args=['x'])] if role.name == 'launcher' else []",
        ["fleet.py:2: Mine.containers[0].args: a hook must not set `args`: Trainer sets the arguments of the launcher"],
    ),
    "the readiness probe": (
        "def containers(self, role): return [Container('node', readiness_probe=Probe(port=1))]",
        [
            (
                "fleet.py:2: Mine.containers[0].readiness_probe: a hook must not set `readinessProbe`: this "
                "probe connects to sshd"
            )
        ],
    ),
    "the image and the resources of the main container": (
        "def containers(self, role): return [Container('node', image='a:1', resources={'cpu': 1})]",
        [
            "fleet.py:2: Mine.containers[0].image: a hook must not set `image`: the init container `prepare`",
            "fleet.py:2: Mine.containers[0].resources: a hook must not set `resources`: the number of ranks",
        ],
    ),
    "the capability of sshd": (
        (
            "def containers(self, role):\n"
            "    drop = {'capabilities': {'drop': ['NET_BIND_SERVICE']}}\n"
            "    return [Container('node', security_context=drop)]"
        ),
        ["fleet.py:2: Mine.containers[0].security_context: a hook must not drop capabilities of the main container"],
    ),
    "privileges of the main container": (
        (
            "def containers(self, role):\n"
            "    return [Container('node', security_context={'allowPrivilegeEscalation': True, 'runAsUser': 0})]"
        ),
        [
            "fleet.py:2: Mine.containers[0].security_context: a hook must not set `allowPrivilegeEscalation`",
            "fleet.py:2: Mine.containers[0].security_context: as root, ssh rejects its private key",
        ],
    ),
    "a further container of the launcher": (
        "def containers(self, role): return [Container('log')]",
        ["fleet.py:2: Mine.containers[0]: the launcher pod completes only when `log` ends, so the job would run until"],
    ),
    "root": (
        "def security(self, role): return Security(run_as_user=0)",
        ["fleet.py:2: Mine.security.run_as_user: as root, ssh rejects its private key"],
    ),
    "labels of controllers": (
        (
            "def pod(self, role): return Pod(labels={'mpigen.dev/runtime': 'x'})\n"
            "def job(self, role): return Job(labels={'trainer.kubeflow.org/trainjob-ancestor-step': 'x'})"
        ),
        [
            "fleet.py:2: Mine.pod.labels: a hook must not set the label `mpigen.dev/runtime`",
            "fleet.py:3: Mine.job.labels: a hook must not set the label `trainer.kubeflow.org/trainjob-ancestor-step`",
        ],
    ),
    "annotations of controllers": (
        "def pod(self, role): return Pod(annotations={'k8s.v1.cni.cncf.io/networks': 'x'})",
        ["fleet.py:2: Mine.pod.annotations: a hook must not set the annotation `k8s.v1.cni.cncf.io/networks`"],
    ),
    "a field of mpigen without a row": (
        "def pod(self, role): return Pod(fields={'automountServiceAccountToken': True})",
        ["fleet.py:2: Mine.pod.fields: a hook must not set `automountServiceAccountToken`: mpigen sets `False`"],
    ),
    "a field with an argument": (
        "def pod(self, role): return Pod(fields={'priorityClassName': 'x'})",
        ["fleet.py:2: Mine.pod.fields: `priorityClassName` has an argument of its own; write `priority_class_name=…`"],
    ),
    "mounts as a field": (
        "def sidecars(self, role): return [Container('a', fields={'volumeMounts': []})]",
        ["fleet.py:2: Mine.sidecars[0].fields: `volumeMounts` has an argument of its own; write `volumes=…`"],
    ),
    "the restart policy of a container": (
        "def init_containers(self, role): return [Container('a', fields={'restartPolicy': 'Always'})]",
        ["fleet.py:2: Mine.init_containers[0].fields: a hook must not set `restartPolicy`: the hook decides"],
    ),
    "a probe of an init container": (
        "def init_containers(self, role): return [Container('a', liveness_probe=Probe(port=1))]",
        ["fleet.py:2: Mine.init_containers[0].liveness_probe: an init container ends before the main container starts"],
    ),
    "a probe without an action": (
        "def sidecars(self, role): return [Container('a', liveness_probe=Probe(path='/x'))]",
        ["fleet.py:2: Mine.sidecars[0].liveness_probe: a probe has either a `port` or a `command`"],
    ),
    # Resources
    "an amount that is no quantity": (
        "def sidecars(self, role): return [Container('a', resources={'cpu': 'many'})]",
        ["fleet.py:2: Mine.sidecars[0].resources: `many` of `cpu` is not a quantity"],
    ),
    "a resize that is no quantity": (
        "def resources(self, role): return {'cpu': 'many'}",
        ["fleet.py:2: Mine.resources.cpu: `many` is not a quantity"],
    ),
    "a resize beyond a node": (
        "def resources(self, role): return {'cpu': 64}",
        ["fleet.py:2: Mine.resources (resources.cpu): `64` is more than the 63500m that a node of pool `cpu` offers"],
    ),
    "different sizes of pods with ranks": (
        "def resources(self, role): return {'cpu': 8} if role.name == 'node' else {}",
        ["fleet.py:2: Mine.resources: the launcher pod runs ranks, so Trainer gives it the same resources"],
    ),
    "a sidecar that does not fit beside the ranks": (
        "def sidecars(self, role): return [Container('a', resources={'cpu': 20})] if role.name == 'node' else []",
        [
            (
                "fleet.py:2: Mine.sidecars: the containers of a worker pod request 77 cpu together, more than the "
                "63500m that a node of pool `cpu` offers to jobs; request less `cpu` here"
            )
        ],
    ),
    "a device that the pool lacks": (
        "def init_containers(self, role): return [Container('a', resources={'nvidia.com/gpu': 1})]",
        ["fleet.py:2: Mine.init_containers: nodes of pool `cpu` have no `nvidia.com/gpu`; request only cpu and memory"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_reported_with_its_class_method_and_line(app: App, case: str) -> None:
    body, expected = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        create(app, body)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(expected), lines
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True)), lines
    assert caught.value.exit_code is ExitCode.INVALID_INPUT


def test_a_hook_cannot_widen_the_node_affinity_of_the_runtime(app: App) -> None:
    terms: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    body = f"def pod(self, role): return Pod(affinity={{'nodeAffinity': {terms}}})"
    with pytest.raises(ConfigError) as caught:
        create(app, body, node_affinity={"required": [{"key": "example.com/disk", "operator": "Exists"}]})
    (problem,) = caught.value.problems
    assert "the runtime has `nodeAffinity`, and mpigen does not merge two affinities" in str(problem)


_PARTS = {"pod": "Pod", "security": "Security", "job": "Job"}


@pytest.mark.parametrize("row", read_table("kept_fields")["fields"], ids=lambda row: f"{row['part']}-{row['field']}")
def test_every_kept_field_is_rejected_with_its_reason(app: App, row: dict[str, str]) -> None:
    if row["part"] == "main":
        name = "readiness_probe" if row["field"] == "readinessProbe" else row["field"]
        values = {"image": "'a:1'", "readiness_probe": "Probe(port=1)", "resources": "{'cpu': 1}"}
        argument = "fields={'lifecycle': 'x'}" if name == "lifecycle" else f"{name}={values.get(name, ['x'])}"
        body = f"def containers(self, role): return [Container('node', {argument})]"
    elif row["part"] == "container":
        body = f"def sidecars(self, role): return [Container('a', fields={{'{row['field']}': 'x'}})]"
    else:
        body = f"def {row['part']}(self, role): return {_PARTS[row['part']]}(fields={{'{row['field']}': 'x'}})"
    with pytest.raises(ConfigError) as caught:
        create(app, body)
    expected = f"a hook must not set `{row['field']}`: {row['reason']}", row["instead"]
    assert expected in [(problem.message, problem.fix) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("method", "hook"),
    [
        ("init_container", "init_containers"),
        ("initContainers", "init_containers"),
        ("initcontainers", "init_containers"),
        ("side_cars", "sidecars"),
        ("sidecar", "sidecars"),
        ("container", "containers"),
        ("env", "environment"),
        ("enviroment", "environment"),
        ("environment_variables", "environment"),
        ("volume", "volumes"),
        ("volumeMounts", "volumes"),
        ("resource", "resources"),
        ("securityContext", "security"),
        ("pods", "pod"),
        ("tolerations", "pod"),
        ("annotations", "pod"),
        ("jobs", "job"),
        ("backoff_limit", "job"),
    ],
)
@pytest.mark.parametrize("kind", ["", "@property\n", "@staticmethod\n", "@classmethod\n"], ids=repr)
def test_an_override_that_does_not_exist_is_reported(app: App, method: str, hook: str, kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        create(app, f"{kind}def {method}(*self): return []")
    (problem,) = caught.value.problems
    assert (problem.file, problem.path) == ("fleet.py", f"Mine.{method}")
    assert problem.line in (2, 3)
    assert problem.message == f"MpiRuntime has no hook `{method}`, so mpigen would ignore this override"
    assert problem.fix == f"did you mean `{hook}`? For a helper method, write `_{method}`"


def test_helpers_of_a_subclass_are_accepted(app: App) -> None:
    create(
        app,
        """\
        LEVEL = 3
        _init_container = Container("a")
        def _env(self): return {}
        def job_name(self): return "x"
        def container_image(self): return "x"
        def team(self): return "x"
        def is_large(self): return True
        """,
    )


def test_hooks_of_a_base_class_are_inherited_and_reported_with_their_own_line(app: App) -> None:
    class Site(MpiRuntime):
        def environment(self) -> dict[str, str]:
            return {"HOME": "/root"}

    class Team(Site):
        pass

    with pytest.raises(ConfigError, match=r"Team\.environment: mpigen sets `HOME`") as caught:
        Team(app, "team", runtime=Runtime(name="team", pool="cpu"))
    (problem,) = caught.value.problems
    assert problem.file == __file__
    assert problem.line == Site.environment.__code__.co_firstlineno


def test_a_subclass_can_extend_a_hook_with_super(app: App) -> None:
    class Site(MpiRuntime):
        def sidecars(self, role: Role) -> Iterator[Container]:
            del role
            yield Container("a")

    class Team(Site):
        def sidecars(self, role: Role) -> Iterator[Container]:
            yield from super().sidecars(role)
            yield Container("b")

    pods = jobs(Team(app, "extended", runtime=Runtime(name="extended", pool="cpu")))
    names = [one["name"] for one in pods["node"]["spec"]["template"]["spec"]["initContainers"]]
    assert names == ["prepare", "a", "b"]


@pytest.mark.parametrize(("launcher", "runs_ranks"), [("node", True), ("separate", False)])
def test_a_role_has_the_name_of_its_job(app: App, launcher: str, runs_ranks: bool) -> None:
    body = """\
    def pod(self, role): return Pod(labels={"example.com/role": f"{role.name}-{role.runs_ranks}"})
    """
    for name, job in jobs(create(app, body, launcher=launcher)).items():
        ranks = runs_ranks if name == "launcher" else True
        assert job["spec"]["template"]["metadata"]["labels"]["example.com/role"] == f"{name}-{ranks}"


def test_containers_start_after_the_preparation_and_before_the_launcher_waits_for_hosts(app: App) -> None:
    body = """\
    def init_containers(self, role): return [Container("stage")]
    def sidecars(self, role): return [Container("proxy")]
    """
    launcher = jobs(create(app, body, gang="volcano"))["launcher"]["spec"]["template"]["spec"]
    assert [one["name"] for one in launcher["initContainers"]] == ["prepare", "proxy", "stage", "hosts"]
    assert [one.get("restartPolicy") for one in launcher["initContainers"]] == [None, "Always", None, None]
    assert [one["name"] for one in launcher["containers"]] == ["node"]


def test_a_volume_of_several_containers_is_in_the_pod_once(app: App) -> None:
    body = """\
    CACHE = Volume("cache", {"emptyDir": {}}, "/cache")
    def volumes(self): return [self.CACHE]
    def init_containers(self, role): return [Container("stage", volumes=[self.CACHE])]
    def sidecars(self, role): return [Container("log", volumes=[self.CACHE, Volume("log", {"emptyDir": {}}, "/log")])]
    """
    spec = jobs(create(app, body))["node"]["spec"]["template"]["spec"]
    names = [volume["name"] for volume in spec["volumes"]]
    assert names[-2:] == ["cache", "log"]
    assert names.count("cache") == 1
    assert {"name": "log", "mountPath": "/log"} not in spec["containers"][0]["volumeMounts"]


def test_later_changes_of_returned_values_do_not_change_the_manifests(app: App) -> None:
    source: dict[str, Any] = {"emptyDir": {"sizeLimit": "1Gi"}}

    class Mine(MpiRuntime):
        def volumes(self) -> list[Volume]:
            return [Volume("cache", source, "/cache")]

    component = Mine(app, "mutable", runtime=Runtime(name="mutable", pool="cpu"))
    source["emptyDir"]["sizeLimit"] = "2Gi"
    volumes = jobs(component)["node"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}} in volumes


def test_the_checks_judge_the_additions_of_hooks() -> None:
    """A hook can return what an admission policy or Pod Security rejects: the release then has findings."""
    platform = Platform.model_validate(small_platform())
    app = App(platform)
    create(app, "def pod(self, role): return Pod(fields={'hostNetwork': True})")
    findings = [finding for finding in judge(platform, collect(app)).findings if "hostNetwork" in finding.message]
    assert findings


def test_added_containers_get_the_pull_policy_of_the_runtime(app: App) -> None:
    body = """\
    def sidecars(self, role): return [Container("a"), Container("b", image_pull_policy="Never")]
    """
    pod = jobs(create(app, body, imagePullPolicy="Always"))["node"]["spec"]["template"]["spec"]
    policies = {one["name"]: one["imagePullPolicy"] for one in pod["initContainers"]}
    assert policies == {"prepare": "Always", "a": "Always", "b": "Never"}
