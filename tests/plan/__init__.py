"""The fixtures of plans: `<topic>.yaml` has the cases of a topic, `<topic>.txt` the effects of each case.

A case is an update of a platform: a patch of its platform file (`edit`), and edits of its rendered files by hand
(`files`: path → patch, `add`: path → text, `remove`: patterns of paths). A patch has the form of tests/checks. The base
is an example, or a file `<base>.yaml` of tests/plan/bases. A case with `old` and `new` has the objects of both trees.
`golden` has the whole plans of some cases in each format.
`python -m tests.plan [TOPIC…]` records the effects again. Read the diff as a reviewer of the update would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from generator.checks.objects import Change
from generator.effects.effect import Effect
from generator.effects.topics import find_effects
from generator.manifests import Manifest, read
from generator.release import Release
from generator.report import plan as report
from generator.report.json import render as render_json
from generator.report.result import Result
from generator.stages.draft import draft_all
from tests.checks import patch
from tests.conftest import EXAMPLES

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Case:
    """An update whose effects are recorded.

    Attributes:
        topic: the topic, such as `quota`.
        name: the name of the case, unique in the topic.
        base: the platform before the update.
        before: the patch of the platform file that makes it the platform before the update; empty for none.
        edit: the patch of the platform file; empty for none.
        files: path → patch of a rendered file, after the edit.
        add: path → text of a new file.
        remove: patterns of the paths of rendered files to remove.
        old: the objects before the update, instead of a base.
        new: the objects after the update.
    """

    topic: str
    name: str
    base: str
    before: str = ""
    edit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    add: Mapping[str, str] = field(default_factory=dict)
    remove: Sequence[str] = ()
    old: str = ""
    new: str = ""

    @property
    def id(self) -> str:
        """Return the topic and the name."""
        return f"{self.topic}/{self.name}"

    @property
    def change(self) -> Change:
        """Return the manifests before and after the update, with the locks of both releases."""
        if self.old:
            return Change.of_trees(list(read(self.old, "old.yaml")), list(read(self.new, "new.yaml")), {})
        text = platform_text(self.base)
        if self.before:
            text = patch(text, self.before, self.name)
        old, rendered = render(text), render(patch(text, self.edit, self.name) if self.edit else text)
        kept = {
            file: body for file, body in rendered.files.items() if not any(fnmatch(file, glob) for glob in self.remove)
        }
        new = {
            **kept,
            **{file: patch(kept[file], change, self.name) for file, change in self.files.items()},
            **self.add,
        }
        return Change.of_trees(objects(old, old.files), objects(rendered, new), dict(rendered.targets))

    @property
    def effects(self) -> list[Effect]:
        """Return the effects of the update."""
        return find_effects(self.change)


def describe(effects: Sequence[Effect]) -> str:
    """Return effects as lines: `RISK TOPIC: TEXT`, and the indented details."""
    lines = [
        line
        for effect in effects
        for line in (f"{effect.risk} {effect.topic}: {effect.text}", *(f"  {detail}" for detail in effect.details))
    ]
    return "".join(f"{line}\n" for line in lines)


def platform_text(base: str) -> str:
    """Return the platform file of a base."""
    own = FOLDER / "bases" / f"{base}.yaml"
    return (own if own.is_file() else EXAMPLES[base]).read_text("utf-8")


@cache
def render(text: str) -> Release:
    """Return the release of a platform file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "platform.yaml"
        file.write_text(text, "utf-8")
        return draft_all(file, Path(folder) / "output", "")[0].release


def objects(release: Release, files: Mapping[str, str]) -> list[Manifest]:
    """Return the manifests of files, and the lock of the release as the last one."""
    return [*(manifest for file in sorted(files) for manifest in _parse(file, files[file])), release.lock.manifest]


@cache
def _parse(file: str, text: str) -> Sequence[Manifest]:
    return list(read(text, file))


def _read(file: Path) -> Iterator[Case]:
    content: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    for name, row in content["cases"].items():
        yield Case(file.stem, name, **{"base": content["base"], **row})


CASES: Mapping[str, Case] = {case.id: case for file in sorted(FOLDER.glob("*.yaml")) for case in _read(file)}
"""Topic and name → case."""
TOPICS = sorted({case.topic for case in CASES.values()})


def expected(topic: str) -> Mapping[str, str]:
    """Return the reviewed effects of a topic: case → lines."""
    file = FOLDER / f"{topic}.txt"
    parts = file.read_text("utf-8").split("### ")[1:] if file.is_file() else []
    return dict(part.split("\n", 1) for part in parts)


def record(topic: str) -> None:
    """Write the effects of a topic."""
    cases = [case for case in CASES.values() if case.topic == topic]
    words = "".join(f"### {case.id}\n{describe(case.effects)}" for case in cases)
    (FOLDER / f"{topic}.txt").write_text(words, "utf-8")


GOLDEN = FOLDER / "golden"
TITLE = "prod 1.1.0, compared with HEAD:output/prod"
GOLDEN_CASES = ("version/newer-components", "quota/fewer-nodes", "runtimes/image", "prune/a-team")
"""The cases whose effects the files of `golden` have."""


def golden() -> Mapping[str, str]:
    """Return file of `golden` → the plan in a format."""
    effects = [effect for case in GOLDEN_CASES for effect in CASES[case].effects]
    facts = report.facts("prod", "1.1.0", "HEAD:output/prod", effects)
    return {
        "plan.txt": "".join(f"{line}\n" for line in report.text(TITLE, effects)),
        "details.txt": "".join(f"{line}\n" for line in report.text(TITLE, effects, has_details=True)),
        "plan.md": report.markdown(TITLE, effects),
        "plan.json": f"{render_json(Result(summary=facts))}\n",
        "none.txt": "".join(f"{line}\n" for line in report.text(TITLE, [])),
        "none.md": report.markdown(TITLE, []),
    }
