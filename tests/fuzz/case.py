"""A case: files in an empty folder, and the command line that reads them. Seed and number determine it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import hostile
from tests.fuzz.corpus import Corpus, cases, is_job, manifests, platforms, runtimes_of
from tests.fuzz.mutate import mutated, mutated_text, written

KINDS = ("platform", "manifest", "synth")
"""The kinds of input; `synth` also renders the platform, which starts Node."""
_FILE = "platform.yaml"
_SOUND = 0.7
"""The share of platforms that are valid before mutation."""


@dataclass(slots=True)
class Case:
    """Files and a command line.

    Attributes:
        files: path below the folder → content.
        arguments: arguments of mpigen.
        stdin: standard input.
    """

    files: dict[str, bytes]
    arguments: list[str]
    stdin: bytes = b""
    name: str = field(default="")

    def write(self, folder: Path) -> None:
        """Write the files."""
        for path, content in self.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def case(seed: int, kind: str, number: int) -> Case:
    """Make a case. The first numbers of a kind are hostile inputs, each with every command."""
    chance = Random(f"{seed}-{kind}-{number}")
    if kind == "manifest":
        return _hostile_manifest(number) or _manifest(chance)
    made = _hostile_platform(number, is_rendered=kind == "synth")
    return made or _platform(chance, is_rendered=kind == "synth")


def prepare() -> None:
    """Read the sources of cases once for all processes."""
    for corpus in (platforms, manifests, cases):
        corpus()
    hostile.platforms()
    hostile.manifests()


def _platform(chance: Random, *, is_rendered: bool) -> Case:
    corpus = platforms()
    groups = corpus.sound if is_rendered or chance.random() < _SOUND else corpus.groups
    text = _text(chance, corpus, chance.choice(groups), varied=0.9 if is_rendered else 0.4)
    arguments = ["synth", _FILE] if is_rendered else chance.choice(_platform_commands(chance))
    return Case({_FILE: text}, arguments)


def _platform_commands(chance: Random) -> list[list[str]]:
    job = [
        "job",
        "new",
        "--release",
        _FILE,
        "--runtime",
        chance.choice(("openmpi", "openmpi-gpu", "openmpi-cpu", "deepspeed")),
    ]
    return [
        ["runtimes", "--release", _FILE],
        ["fabrics", _FILE],
        job,
        [*job, "--smoke"],
        ["runtimes", "show", "openmpi", "--release", _FILE],
    ]


def _hostile_platform(number: int, *, is_rendered: bool) -> Case | None:
    texts = list(hostile.platforms().items())
    commands = [
        ["runtimes", "--release", _FILE],
        ["job", "new", "--release", _FILE, "--runtime", "openmpi"],
        ["validate", _FILE],
    ]
    if is_rendered:
        texts, commands = texts[: hostile.READABLE], [["synth", _FILE], ["queues", "--release", _FILE]]
    index, command = divmod(number, len(commands))
    if index >= len(texts):
        return None
    name, text = texts[index]
    return Case({_FILE: text}, commands[command], name=name)


def _text(chance: Random, corpus: Corpus, group: dict[str, list[Any]], varied: float = 0.0) -> bytes:
    """Return one file of a group after some accidents."""
    documents = group[chance.choice(sorted(group))]
    if chance.random() < varied and documents:
        return written([_varied(chance, documents[0], corpus)])
    if chance.random() < 0.3:
        return mutated_text(chance, chance.choice(corpus.texts), corpus.texts)
    text = written([mutated(chance, data, corpus) for data in documents])
    return mutated_text(chance, text, corpus.texts) if chance.random() < 0.1 else text


def _varied(chance: Random, data: Any, corpus: Corpus) -> Any:
    """Return data with numbers and words from the same place elsewhere, so that much of it is valid."""
    if isinstance(data, dict):
        return {
            key: chance.choice(corpus.values[key])
            if key in corpus.values and not isinstance(value, dict | list) and chance.random() < 0.02
            else _varied(chance, value, corpus)
            for key, value in data.items()
        }
    return [_varied(chance, item, corpus) for item in data] if isinstance(data, list) else data


def _manifest(chance: Random) -> Case:
    corpus = manifests()
    folder = _folder(chance, corpus, "new")
    match chance.randrange(26):
        case 0 | 1 | 2:
            return Case({**folder, **_folder(chance, corpus, "old")}, ["validate", "new", "--since", "old"])
        case 3 | 4 | 5:
            return Case(folder, ["queues", "--release", "new"])
        case 6:
            return Case(folder, ["can-i", "new"])
        case 7:
            who = chance.choice(("group:nlp", "user:ada", "serviceaccount:team-a/default"))
            verb, resource = chance.choice(("create", "get", "delete")), chance.choice(("trainjobs", "pods", "secrets"))
            return Case(folder, ["can-i", who, verb, resource, "-n", "team-a", "new"])
        case 8 | 9 | 10:
            text = _text(chance, cases(), chance.choice(cases().groups))
            return Case({**folder, "cases.yaml": text}, ["policy", "test", "new", "--cases", "cases.yaml"])
        case 11:
            return Case({}, ["validate", "-"], stdin=next(iter(folder.values())))
        case 12:
            return Case(folder, ["validate", "new", "--target", "trainer=2.2", "--format", "json"])
        case 20 | 21 | 22 | 23 | 24 | 25:
            return chance.choice((_checked, _compiled, _offered, _exported))(chance, corpus)
    return Case(folder, ["validate", "new"])


def _checked(chance: Random, corpus: Corpus) -> Case:
    user = chance.choice(([], ["--as", "user:ada"], ["--as", "serviceaccount:team-a/default"]))
    return Case(_submitted(chance, corpus), ["check-job", "job.yaml", "--release", "new", *user])


def _compiled(chance: Random, corpus: Corpus) -> Case:
    return Case(_submitted(chance, corpus), ["compile", "job.yaml", "new"])


def _exported(chance: Random, corpus: Corpus) -> Case:
    group = chance.choice(corpus.with_jobs)
    file = chance.choice(sorted(group))
    text = _text(chance, corpus, {file: group[file]})
    return Case({f"new/{file}": text}, ["job", chance.choice(("status", "again")), "new"])


def _submitted(chance: Random, corpus: Corpus) -> dict[str, bytes]:
    """Return a file with TrainJobs, and a folder with the other objects; some of both are mutated."""
    group = chance.choice(corpus.with_jobs)
    documents = [document for file in group.values() for document in file]
    jobs = [document for document in documents if is_job(document)]
    others = [document for document in documents if not is_job(document)]
    made = {"job.yaml": written([_varied(chance, mutated(chance, job, corpus), corpus) for job in jobs])}
    return {**made, "new/a.yaml": _text(chance, corpus, {"a.yaml": others}, varied=0.3) if others else b"{}"}


def _offered(chance: Random, corpus: Corpus) -> Case:
    """Return a folder with runtimes, of which some objects are mutated, and a new job on one of them."""
    group = chance.choice([group for group in corpus.groups if runtimes_of(group)])
    documents = [document for file in group.values() for document in file]
    made = [mutated(chance, document, corpus) if chance.random() < 0.5 else document for document in documents]
    release = ["--release", "new", "--runtime", chance.choice(runtimes_of(group))]
    more = chance.choice((["--smoke"], ["--processes", "2"], ["--resources", "cpu=4"], []))
    command = [] if "--smoke" in more else ["--", "mpirun", "x"]
    return Case({"new/a.yaml": written(made)}, ["job", "new", *release, *more, *command])


def _folder(chance: Random, corpus: Corpus, name: str) -> dict[str, bytes]:
    """Return files of one or several folders, some of them mutated."""
    made: dict[str, bytes] = {}
    for _ in range(chance.choice((1, 1, 2))):
        group = chance.choice(corpus.groups)
        for file in chance.sample(sorted(group), min(len(group), chance.choice((1, 2, 3, 6)))):
            text = (
                written(group[file]) if made and chance.random() < 0.6 else _text(chance, corpus, {file: group[file]})
            )
            made[f"{name}/{file}"] = text
    return made


def _hostile_manifest(number: int) -> Case | None:
    texts = list(hostile.manifests().items())
    commands = [
        ["validate", "new"],
        ["queues", "--release", "new"],
        ["can-i", "new"],
        ["policy", "test", "new", "--cases", "new"],
    ]
    commands += [["validate", "new", "--since", "old"]]
    index, command = divmod(number, len(commands))
    if index >= len(texts):
        return None
    name, text = texts[index]
    return Case({"new/a.yaml": text, "old/a.yaml": text}, commands[command], name=name)
