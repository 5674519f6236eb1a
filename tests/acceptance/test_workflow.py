"""Run the steps of the workflows that `mpigen init --ci` writes, as GitHub, GitLab and Tekton run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jsonschema
import pytest
import yaml
from typing_extensions import override

from generator.cli.workflow import WORKFLOWS
from tests.conftest import MPIGEN, ROOT, Run

STEPS: dict[str, str] = yaml.safe_load((ROOT / "generator/cli/workflows/steps.yaml").read_text())
CHECKS = ["verify", "compare", "validate", "policies", "expectations", "plan"]
"""The steps of all systems for a pull request, in their order."""
TOKEN = "the-secret"
MARK = "<!-- mpigen plan -->"


def git(folder: Path, *words: str) -> str:
    """Run git, and return its output."""
    ran = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "change")
    git(folder, "push", "--quiet", "origin", "HEAD:refs/heads/main")


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a platform, its release and expectations."""
    folder = tmp_path_factory.mktemp("first")
    for words in (["init"], ["synth", "platform.yaml"], ["expect", "platform.yaml", "--write"]):
        subprocess.run([MPIGEN, *words], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def repository(first: Path, tmp_path: Path) -> Path:
    """Return a repository on the branch main with a release, expectations, all workflows and a remote."""
    folder = tmp_path / "repository"
    shutil.copytree(first, folder)
    for workflow in WORKFLOWS.values():
        (folder / workflow.path).parent.mkdir(parents=True)
        (folder / workflow.path).write_text(workflow.text)
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(folder, "init", "--quiet", "--initial-branch=main", ".")
    git(folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
    for key, value in (("user.name", "ada"), ("user.email", "ada@example.com")):
        git(folder, "config", key, value)
    commit(folder)
    return folder


class Forge(ThreadingHTTPServer):
    """The API of comments of GitHub and GitLab.

    Attributes:
        comments: id → comment.
        foreign: the ids of comments that the token cannot edit.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: dict[int, dict[str, Any]] = {}
        self.foreign: set[int] = set()

    @property
    def address(self) -> str:
        """The address of the comments."""
        return f"http://127.0.0.1:{self.server_port}/comments"


class _Handler(BaseHTTPRequestHandler):
    """Answer as the API, and reject requests without the token."""

    server: Forge

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        query = dict(re.findall(r"(\w+)=(\w+)", self.path))
        size, page = int(query["per_page"]), int(query.get("page", 1))
        self._answer(200, list(self.server.comments.values())[size * (page - 1) : size * page])

    def do_POST(self) -> None:
        number = len(self.server.comments) + 1
        url = f"{self.server.address}/{number}"
        self.server.comments[number] = {"id": number, "url": url, "body": self._body()}
        self._answer(201, {})

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/")[2])
        self.server.comments[number]["body"] = self._body()
        self._answer(403 if number in self.server.foreign else 200, {})

    do_PUT = do_PATCH  # noqa: N815 - the name of the base class

    def _body(self) -> str:
        text: str = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        return text

    def _answer(self, code: int, data: object) -> None:
        is_known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.send_response(code if is_known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(data if is_known else {}).encode())


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@dataclass
class Ran:
    """A run of a workflow.

    Attributes:
        failed: the name of the failed step; empty if all steps passed.
        output: the output of all steps.
        folder: the working folder of the last step.
    """

    folder: Path
    failed: str = ""
    output: str = ""
    steps: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Pull:
    """A pull request.

    Attributes:
        folder: the repository, on the branch of the pull request.
        base: the commit before the pull request.
        comments: the address of the API of its comments.
    """

    folder: Path
    base: str
    comments: str = "http://127.0.0.1:9/comments"
    is_fork: bool = False
    is_accepted: bool = False


def name_of(script: str) -> str:
    """Return the name of the shared step with a script; empty for a script of one system."""
    return next((name for name, text in STEPS.items() if script.strip().endswith(text.strip())), "")


def run_steps(ran: Ran, scripts: list[str], shell: list[str], environment: Mapping[str, str]) -> None:
    """Run scripts in one shell, except the installation of mpigen. Record the first that fails."""
    marked = [f"echo @@{name_of(script)}\n{script}" for script in scripts if name_of(script) != "install"]
    path = os.pathsep.join([str(MPIGEN.parent), os.environ["PATH"]])
    done = subprocess.run(
        [*shell, "\n".join(marked)],
        cwd=ran.folder,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    ran.output += done.stdout + done.stderr
    ran.steps += re.findall(r"(?m)^@@(\w+)$", done.stdout)
    if done.returncode:
        ran.failed = ran.steps[-1]


def run_github(pull: Pull) -> Ran:
    """Run the job for a pull request. GitHub runs each step in its own shell."""
    workflow = yaml.safe_load((pull.folder / WORKFLOWS["github"].path).read_text())
    job, ran = workflow["jobs"]["check"], Ran(pull.folder)
    api, rest = pull.comments.rsplit("/", 1)
    values = {
        "github.event.pull_request.base.sha": pull.base,
        "github.event.pull_request.head.repo.full_name == github.repository": str(not pull.is_fork).lower(),
        "github.token": TOKEN,
        "contains(github.event.pull_request.labels.*.name, 'mpigen-accept-risk')": str(pull.is_accepted).lower(),
    }
    summary = {"GITHUB_STEP_SUMMARY": str(pull.folder.parent / "summary.md")}
    for step in job["steps"]:
        if "run" not in step or ("if" in step and values[step["if"]] != "true"):
            continue
        own = {**workflow["env"], **job["env"], **step.get("env", {})}
        if "COMMENTS" in own:
            assert own["COMMENTS"].endswith("/issues/${{ github.event.pull_request.number }}/comments")
            own["COMMENTS"] = f"{api}/{rest}"
        own = {key: re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values[match[1]], own[key]) for key in own}
        run_steps(ran, [step["run"]], ["bash", "-e", "-c"], {**own, **summary})
        if ran.failed:
            break
    return ran


def run_gitlab(pull: Pull) -> Ran:
    """Run the jobs for a merge request. GitLab runs all scripts of a job in one shell."""
    jobs = yaml.safe_load((pull.folder / WORKFLOWS["gitlab"].path).read_text())
    ran = Ran(pull.folder)
    predefined = {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "8" if pull.is_fork else "7",
        "CI_MERGE_REQUEST_IID": "3",
        "CI_API_V4_URL": "https://gitlab.example.com/api/v4",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": pull.base,
        "CI_MERGE_REQUEST_LABELS": "a,mpigen-accept-risk,b" if pull.is_accepted else "a,b",
        "CI_COMMIT_BRANCH": "",
        "CI_DEFAULT_BRANCH": "main",
        "MPIGEN_COMMENT_TOKEN": TOKEN,
    }
    for name, job in jobs.items():
        if name == ".mpigen" or not any(holds(rule["if"], predefined) for rule in job["rules"]):
            continue
        own = {**jobs[".mpigen"]["variables"], **job.get("variables", {})}
        own = {key: re.sub(r"\$(\w+)", lambda match: predefined[match[1]], own[key]) for key in own}
        if "COMMENTS" in own:
            assert own["COMMENTS"] == "https://gitlab.example.com/api/v4/projects/7/merge_requests/3/notes"
            own["COMMENTS"] = pull.comments
        run_steps(ran, job["script"], ["bash", "-e", "-o", "pipefail", "-c"], {**predefined, **own})
        if ran.failed:
            break
    return ran


def holds(rule: str, values: Mapping[str, str]) -> bool:
    """Evaluate the condition of a rule: comparisons and variables, joined by `&&`."""

    def value(text: str) -> str:
        return values[text[1:]] if text.startswith("$") else text.strip('"')

    return all(
        value(left) == value(right) if operator else bool(value(left))
        for left, operator, right in (part.partition(" == ") for part in rule.split(" && "))
    )


def run_tekton(pull: Pull, pipeline: str = "mpigen-check") -> Ran:
    """Run the Pipeline with the repository's remote. Tekton runs each step in its own shell, which is sh."""
    documents = yaml.safe_load_all((pull.folder / WORKFLOWS["tekton"].path).read_text())
    spec = next(document["spec"] for document in documents if document["metadata"]["name"] == pipeline)
    source, credentials = (pull.folder.parent / name for name in ("source", "credentials"))
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    ran = Ran(source)
    params = {item["name"]: item["default"] for item in spec["params"] if "default" in item} | {
        "package": "mpigen",
        "url": str(pull.folder.parent / "remote.git"),
        "revision": git(pull.folder, "rev-parse", "HEAD"),
        "base": pull.base,
        "trusted": str(not pull.is_fork).lower(),
        "accepted": str(pull.is_accepted).lower(),
        "comments": pull.comments,
    }
    for task in spec["tasks"]:
        if any(expand(when["input"], params) not in when["values"] for when in task.get("when", ())):
            continue
        values = {item["name"]: expand(item["value"], params) for item in task["params"]}
        paths = {"source": str(source), "credentials": str(credentials) if credentials.exists() else ""}
        template = task["taskSpec"].get("stepTemplate", {})
        for step in task["taskSpec"]["steps"]:
            both = [*template.get("env", ()), *step.get("env", ())]
            own = {
                item["name"]: TOKEN if "valueFrom" in item else expand(item["value"], values, paths) for item in both
            }
            run_steps(ran, [step["script"]], ["sh", "-e", "-c"], {**own, "HOME": str(pull.folder.parent)})
            if ran.failed:
                return ran
    return ran


def expand(text: str, params: Mapping[str, str], paths: Mapping[str, str] | None = None) -> str:
    """Replace the variables of Tekton."""
    text = re.sub(r"\$\(params\.([\w-]+)\)", lambda match: params[match[1]], text)
    return re.sub(r"\$\(workspaces\.(\w+)\.path\)", lambda match: (paths or {})[match[1]], text)


RUNNERS = {"github": run_github, "gitlab": run_gitlab, "tekton": run_tekton}


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Any:
    """Return the function that runs the checks of a system."""
    return RUNNERS[request.param]


def change_quota(folder: Path, quota: str) -> None:
    platform = folder / "platform.yaml"
    text = platform.read_text().replace("quota: {cpu: 3}", f"quota: {{cpu: {quota}}}")
    platform.write_text(re.sub(r"(?m)^release: .*$", "release: 1.1.0", text))


def test_all_systems_run_the_same_steps_and_a_changed_quota_gets_a_comment(
    run: Any, repository: Path, forge: Forge
) -> None:
    base = git(repository, "rev-parse", "HEAD")
    change_quota(repository, "2")
    subprocess.run([MPIGEN, "synth", "platform.yaml"], cwd=repository, check=True, capture_output=True)
    commit(repository)
    ran = run(Pull(repository, base, forge.address, is_accepted=True))
    assert ran.failed == "", ran.output
    assert [step for step in ran.steps if step not in ("report", "clone")] == [*CHECKS, "comment", "accept"]
    plan = (ran.folder / "mpigen-plan.md").read_text()
    assert "owns 2 instead of 3 nodes of flavor `cpu`" in plan
    assert [comment["body"] for comment in forge.comments.values()] == [f"{MARK}\n{plan}"]
    assert TOKEN not in ran.output


def test_output_that_is_not_rendered_anew_fails(run: Any, repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    change_quota(repository, "2")
    commit(repository)
    ran = run(Pull(repository, base))
    assert ran.failed == "compare", ran.output


def test_a_stray_file_fails(run: Any, repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    (repository / "output/cpu-kubernetes/cluster/extra.yaml").write_text("a: 1\n")
    commit(repository)
    ran = run(Pull(repository, base))
    assert ran.failed == "verify", ran.output
    if run is run_gitlab:
        findings = json.loads((repository / "mpigen-code-quality.json").read_text())
        file = "output/cpu-kubernetes/cluster/extra.yaml"
        assert file in {finding["location"]["path"] for finding in findings}
        assert file in (repository / "mpigen-junit.xml").read_text()


def test_a_deleted_release_has_a_plan_and_a_fork_gets_no_comment(run: Any, repository: Path, forge: Forge) -> None:
    shutil.copytree(repository / "output/cpu-kubernetes", repository / "output/old")
    commit(repository)
    base = git(repository, "rev-parse", "HEAD")
    shutil.rmtree(repository / "output/old")
    commit(repository)
    ran = run(Pull(repository, base, forge.address, is_fork=True))
    assert ran.failed == "accept", ran.output
    assert "release 1.0.0 is deleted with all its objects" in (ran.folder / "mpigen-plan.md").read_text()
    assert "the plan has a high risk; read it, and " in ran.output
    assert "comment" not in ran.steps
    assert not forge.comments


def test_a_false_expectation_fails_with_an_annotation(repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    file = repository / "expect.yaml"
    file.write_text(file.read_text().replace("expect: yes", "expect: no", 1))
    commit(repository)
    ran = run_github(Pull(repository, base))
    assert ran.failed == "expectations"
    assert "::error file=expect.yaml,line=" in ran.output


def comment(folder: Path, forge: Forge, name: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """Run the shared step that writes the comment."""
    variables = {"FORGE": name, "COMMENTS": forge.address, "MPIGEN_TOKEN": token}
    command = ["sh", "-e", "-c", STEPS["comment"]]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_the_comment_is_updated_in_place_also_after_a_hundred_others(name: str, tmp_path: Path, forge: Forge) -> None:
    forge.comments = {number: {"id": number, "url": "", "body": "hello"} for number in range(1, 151)}
    for text in ("first", "second"):
        (tmp_path / "mpigen-plan.md").write_text(text)
        assert comment(tmp_path, forge, name).returncode == 0
    assert [forge.comments[number]["body"] for number in sorted(forge.comments)[150:]] == [f"{MARK}\nsecond"]


def test_a_comment_of_another_author_is_not_edited(tmp_path: Path, forge: Forge) -> None:
    forge.comments = {1: {"id": 1, "url": "", "body": f"{MARK}\nfake"}}
    forge.foreign = {1}
    (tmp_path / "mpigen-plan.md").write_text("plan")
    assert comment(tmp_path, forge, "gitlab").returncode == 0
    assert forge.comments[2]["body"] == f"{MARK}\nplan"


def test_a_long_plan_is_cut_and_a_wrong_token_stays_secret(tmp_path: Path, forge: Forge) -> None:
    (tmp_path / "mpigen-plan.md").write_text("x" * 70_000)
    ran = comment(tmp_path, forge, "github", "the-wrong-secret")
    assert ran.returncode == 1
    assert "401" in ran.stderr
    assert "secret" not in ran.stdout + ran.stderr
    assert comment(tmp_path, forge, "github").returncode == 0
    assert len(forge.comments[1]["body"]) < 65_536


@pytest.mark.parametrize(("step", "module"), [("install", "pip"), ("comment", "json"), ("tag", "json")])
def test_a_step_runs_no_python_module_of_the_pull_request(step: str, module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("open('hacked', 'w')")
    (tmp_path / "output/a").mkdir(parents=True)
    (tmp_path / "output/a/release.json").write_text("{}")
    (tmp_path / "mpigen-plan.md").touch()
    variables = {
        "MPIGEN_PACKAGE": "./missing",
        "FORGE": "github",
        "COMMENTS": "http://127.0.0.1:9/comments",
        "MPIGEN_TOKEN": TOKEN,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    command = ["sh", "-e", "-c", STEPS[step]]
    ran = subprocess.run(command, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, check=False)
    assert ran.returncode != 0
    assert not (tmp_path / "hacked").exists()


def test_the_installation_needs_a_package(tmp_path: Path) -> None:
    command = ["sh", "-e", "-c", STEPS["install"]]
    environment = {**os.environ, "MPIGEN_PACKAGE": ""}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode != 0, "set this variable" in ran.stderr) == (True, True)


@pytest.mark.parametrize("step", STEPS)
def test_the_scripts_are_correct_posix_shell(step: str) -> None:
    ran = subprocess.run(
        [MPIGEN.parent / "shellcheck", "--shell=sh", "--severity=warning", "-"],
        input=STEPS[step],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_every_system_tags_a_merged_release_once(repository: Path) -> None:
    remote = repository.parent / "remote.git"
    (repository.parent / "credentials").mkdir()
    jobs = yaml.safe_load((repository / WORKFLOWS["gitlab"].path).read_text())
    workflow = yaml.safe_load((repository / WORKFLOWS["github"].path).read_text())
    for _ in range(2):
        ran = Ran(repository)
        (script,) = [step["run"] for step in workflow["jobs"]["tag"]["steps"] if "run" in step]
        run_steps(ran, [script], ["bash", "-e", "-c"], {})
        assert ran.failed == "", ran.output
        assert git(remote, "tag") == "cpu-kubernetes/1.0.0"
        assert git(remote, "rev-parse", "cpu-kubernetes/1.0.0") == git(repository, "rev-parse", "HEAD")
        git(remote, "tag", "--delete", "cpu-kubernetes/1.0.0")
        values = {"MPIGEN_TAG_TOKEN": TOKEN, "CI_PROJECT_URL": str(remote).removesuffix(".git")}
        run_steps(ran, jobs["mpigen-tag"]["script"], ["bash", "-e", "-o", "pipefail", "-c"], values)
        assert ran.failed == "", ran.output
        assert git(remote, "tag") == "cpu-kubernetes/1.0.0"
        assert TOKEN not in ran.output + (repository / ".git/config").read_text()
        git(remote, "tag", "--delete", "cpu-kubernetes/1.0.0")
        ran = run_tekton(Pull(repository, ""), "mpigen-tag")
        assert ran.failed == "", ran.output
        assert git(remote, "tag") == "cpu-kubernetes/1.0.0"


def test_the_workflow_of_github_is_safe(repository: Path) -> None:
    text = (repository / WORKFLOWS["github"].path).read_text()
    workflow = yaml.safe_load(text)
    assert {*workflow[True]} == {"pull_request", "push"}  # YAML reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["check"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    steps: list[dict[str, Any]] = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert "${{" not in "".join(step.get("run", "") for step in steps)
    assert workflow["env"]["MPIGEN_NO_PYTHON"] == "1"
    assert "pull_request_target" not in text
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)


def test_gitlab_gives_no_token_to_forks_and_its_file_matches_the_schema_of_gitlab(repository: Path) -> None:
    jobs = yaml.safe_load((repository / WORKFLOWS["gitlab"].path).read_text())
    # Source: the PyPI package check-jsonschema 0.39.0, which has app/assets/javascripts/editor/schema/ci.json of GitLab
    schema = json.loads((ROOT / "tests/fixtures/gitlab/ci.schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(jobs)
    wrong = {**jobs, "mpigen-check": {**jobs["mpigen-check"], "retry": "often"}}
    assert not jsonschema.Draft7Validator(schema).is_valid(wrong)
    tokens = {name for name, job in jobs.items() if "_TOKEN" in json.dumps(job.get("script", ""))}
    assert tokens == {"mpigen-comment", "mpigen-tag"}
    assert jobs[".mpigen"]["variables"]["MPIGEN_NO_PYTHON"] == "1"


def test_tekton_reads_the_token_in_one_task_that_runs_for_trusted_pull_requests(repository: Path) -> None:
    pipeline, _ = yaml.safe_load_all((repository / WORKFLOWS["tekton"].path).read_text())
    defaults = {item["name"]: item.get("default") for item in pipeline["spec"]["params"]}
    assert defaults["trusted"] == "false"
    tasks = [task for task in pipeline["spec"]["tasks"] if "secretKeyRef" in json.dumps(task)]
    assert [(task["name"], task["when"]) for task in tasks] == [
        ("comment", [{"input": "$(params.trusted)", "operator": "in", "values": ["true"]}])
    ]


@pytest.mark.parametrize("system", WORKFLOWS)
def test_an_existing_workflow_is_kept(system: str, tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / WORKFLOWS[system].path
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    ran = mpigen("init", "--ci", system)
    assert (ran.returncode, ran.stderr.count("exists already")) == (2, 1)
    assert file.read_text() == "mine\n"
    file.unlink()
    ran = mpigen("init", "--ci", system)
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, f"wrote {WORKFLOWS[system].path}")
    assert file.read_text() == WORKFLOWS[system].text
