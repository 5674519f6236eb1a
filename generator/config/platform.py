"""Platform: a whole platform file as one frozen value, and its JSON Schema.

The order of entries in `pools`, `tenants` and other lists of named entries does not matter: a Platform sorts them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, from_json

from generator.config.mistakes import RULE_BROKEN, Mistake, mistakes_in
from generator.config.model.access import SUPERUSERS, Callers, PlatformAccess, to_callers
from generator.config.model.cluster import Cluster, GitOps
from generator.config.model.devices import DeviceType
from generator.config.model.fabrics import Fabric
from generator.config.model.families import MpiFamily
from generator.config.model.fields import MappingOf, Name, Section, Steps, invalid, sort_keys
from generator.config.model.isolation import Isolation
from generator.config.model.patches import Extras, Patch, have_unique_names
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import Queues
from generator.config.model.quotas import Supply, pool_supply
from generator.config.model.removals import Removal
from generator.config.model.runtimes import Runtime
from generator.config.model.servers import ServerType, resolve_servers
from generator.config.model.tenants import Cohort, Tenant, remote_cohorts, workers_cohort
from generator.config.rules.find import find_mistakes
from generator.config.rules.rule import PartialPlatform
from generator.config.valid_parts import LISTS, SECTIONS, salvage
from generator.documents.messages import format_value
from generator.errors import suggest
from generator.facts.names import CATALOGUE_NAMESPACE

SORTED = tuple(LISTS)
"""The sections that are lists of named entries. A Platform sorts each of them by name."""
_SEMVER = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")
_RELEASE_FIX = "write three numbers with dots, such as 1.0.0"


def _is_string(value: Any) -> Any:
    if isinstance(value, int | float):
        raise invalid(f"`release` must be a string, not the number {format_value(value)}", _RELEASE_FIX)
    return value


def _is_semantic_version(value: str) -> str:
    if not _SEMVER.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a semantic version", _RELEASE_FIX)
    return value


def _is_free_name(value: str) -> str:
    if value in ("argocd", "default"):
        # `argocd` is a folder of the output, `default` a project of Argo CD itself.
        raise invalid(f"the name `{value}` is reserved", "name the platform after its cluster, such as prod-east")
    return value


class Platform(Section):
    """The training platform of one cluster."""

    platform: Annotated[Name, AfterValidator(_is_free_name)] = Field(examples=["prod-east"])
    """The name of the platform. The folder of its release and the root Cohort have this name. The names of other
    objects, such as the Applications of Argo CD, begin with it."""
    renamed_from: Name | None = Field(default=None, examples=["prod"])
    """The earlier name of the platform. `mpigen plan` then compares the release with the release in the folder of the
    earlier name, and describes the rename. Remove the field after you have deleted this folder. Default: the platform
    keeps its name."""
    release: Annotated[str, BeforeValidator(_is_string), AfterValidator(_is_semantic_version)] = Field(
        examples=["1.0.0"]
    )
    """The semantic version of the release, which is all manifests that mpigen writes from this file. Raise it with
    every change."""
    cluster: Cluster = Field(default=Cluster(), examples=[{"distribution": "openshift"}])
    """The cluster that the manifests are for: its distribution, network and versions."""
    devices: tuple[DeviceType, ...] = Field(
        default=(), examples=[[{"name": "acme-npu", "resource": "acme.example.com/npu", "most": 8}]]
    )
    """Device types of your own, which pools can have in addition to the accelerators of mpigen."""
    servers: tuple[ServerType, ...] = Field(
        default=(), examples=[[{"name": "acme-h100", "like": "hgx-h100", "fabric": {"perNode": 4}}]]
    )
    """Server types of your own, which `fabrics[].server` can name in addition to the server types of mpigen."""
    fabrics: tuple[Fabric, ...] = Field(default=(), examples=[[{"name": "ib", "server": "hgx-h100"}]])
    """High-speed networks, such as InfiniBand, which connect the ranks of a job in addition to the pod network."""
    pools: tuple[Pool, ...] = Field(
        min_length=1, examples=[[{"name": "cpu", "nodes": 3, "allocatable": {"cpu": 16, "memory": "64Gi"}}]]
    )
    """Groups of identical nodes."""
    families: tuple[MpiFamily, ...] = Field(
        default=(), examples=[[{"name": "acme-solver", "like": "openmpi", "title": "Acme Solver 4"}]]
    )
    """MPI families of your own, which `runtimes[].use` can name in addition to the families of mpigen."""
    runtimes: tuple[Runtime, ...] = Field(default=(), examples=[[{"name": "openmpi", "pool": "cpu"}]])
    """The runtimes of Kubeflow Trainer that TrainJobs can name. Each one is for one pool."""
    tenants: tuple[Tenant, ...] = Field(default=(), examples=[[{"name": "team-sim", "quota": {"cpu": 3}}]])
    """Teams with their namespaces, quota and access."""
    cohorts: tuple[Cohort, ...] = Field(default=(), examples=[[{"name": "physics"}, {"name": "chemistry"}]])
    """Groups of teams that share quota with each other first. Default: the cohorts that `tenants[].cohort` names,
    directly below the root Cohort of these tenants and without quota of their own."""
    removed: Annotated[dict[Name, Removal], AfterValidator(sort_keys)] = Field(
        default={},
        validate_default=True,
        examples=[{"team-sim": {"reason": "the data is archived", "until": "2027-04-30"}}],
    )
    """Acknowledgements: the teams and namespaces that a release may remove, by name. Argo CD deletes their namespaces
    with all data. Without an acknowledgement, mpigen writes no release that removes a team or a namespace. Delete an
    acknowledgement after its last day."""
    policies: Policies = Field(default=Policies(), examples=[{"images": {"registries": ["quay.io/acme/"]}}])
    """Rules for all tenants: Pod Security, admission policies, images, residency and retention."""
    access: PlatformAccess = Field(default=PlatformAccess(), examples=[{"admin": ["group:platform-admins"]}])
    """The admins and janitors of the platform, and the accounts of its CI pipelines."""
    isolation: Isolation = Field(default=Isolation(), examples=[{"metrics": {"namespace": "monitoring"}}])
    """The network traffic that pods of all tenants may have in addition to `tenants[].egress`."""
    queues: Queues = Field(default=Queues(), examples=[{"fairSharing": True}])
    """Settings of Kueue: priorities, fair sharing, MultiKueue and time limits."""
    gitops: GitOps | None = Field(default=None, examples=[{"repository": "https://git.example.com/platform.git"}])
    """Settings of the Argo CD Applications that apply the manifests. Default: none; then you apply them yourself."""
    extra: Extras = Field(
        default=(),
        examples=[
            [
                "extra/dcgm-exporter.yaml",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}},
            ]
        ],
    )
    """Objects of your own that the release contains in addition. An entry is an object, or a file with objects. The
    path of a file is relative to the platform file. mpigen checks these objects like generated ones, and Argo CD or
    Flux applies them. `tenants[].extra` has the objects of one team."""
    patches: Annotated[tuple[Patch, ...], AfterValidator(have_unique_names)] = Field(
        default=(),
        examples=[
            [
                {
                    "target": {"kind": "Namespace", "tenant": "team-sim"},
                    "merge": {"metadata": {"annotations": {"example.com/cost-center": "4711"}}},
                    "reason": "the billing export reads this annotation",
                }
            ]
        ],
    )
    """Changes of generated objects, for fields that no other field of this file sets. mpigen applies the patches in
    their order, and checks the changed objects. A patch that matches no object, or changes nothing, is an error."""
    environments: MappingOf[Name, dict[str, Any]] = Field(
        default={},
        validate_default=True,
        examples=[
            {
                "stage": {"pools": [{"name": "cpu", "nodes": 3}]},
                "prod": {"gitops": {"revision": "v1.4.0"}, "without": {"tenants": ["team-sandbox"]}},
            }
        ],
    )
    """Environments, such as dev, stage and prod, with their differences from the other fields of this file. `mpigen
    synth` writes a release for each environment, by default with the name `<platform>-<environment>`. A difference has
    the fields of a platform. Mappings are merged by key, and lists of named entries by name. All other values replace
    the value of the base, and `null` removes it. `without` lists the entries that the environment does not have.
    Default: none; then the file describes one platform."""

    @model_validator(mode="before")
    @classmethod
    def _have_servers(cls, value: Any) -> Any:
        return resolve_servers(value) if isinstance(value, dict) and value.get("servers") else value

    @field_validator("environments")
    @classmethod
    def _are_merged(cls, value: dict[str, Any]) -> dict[str, Any]:
        if value:
            fix = 'create a Platform for each environment, such as `load_platform("platform.yaml", "prod")`'
            raise invalid("a Platform is one environment, so it has no `environments`", fix)
        return value

    @field_validator("pools")
    @classmethod
    def _have_fabrics(cls, value: tuple[Pool, ...], info: ValidationInfo) -> tuple[Pool, ...]:
        own = [entry.device for entry in info.data.get("devices", ())]
        return tuple(pool.wired(info.data.get("fabrics", ())).with_devices(own) for pool in value)

    @field_validator("runtimes")
    @classmethod
    def _have_families(cls, value: tuple[Runtime, ...], info: ValidationInfo) -> tuple[Runtime, ...]:
        families = [entry.family for entry in info.data.get("families", ())]
        return tuple(runtime.with_family(families) for runtime in value)

    @field_validator(*SORTED)
    @classmethod
    def _are_sorted(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(value, key=lambda entry: entry.name))

    @model_validator(mode="after")
    def _breaks_no_rule(self) -> Self:
        partial = self._to_partial()
        errors = [
            InitErrorDetails(
                type=PydanticCustomError(RULE_BROKEN, "{message}", {"message": mistake.message, "fix": mistake.fix}),
                loc=_name_entry(mistake.path, partial.names),
                input=None,
            )
            for mistake in find_mistakes(partial)
        ]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return self

    @classmethod
    def _explain(cls, error: ValidationError, values: object, *, by_name: bool) -> list[Mistake]:
        if isinstance(values, str | bytes | bytearray):
            values = _read_json(values)
        return explain(error, values, by_name=by_name)

    def _to_partial(self) -> PartialPlatform:
        names = {section: tuple(entry.name for entry in getattr(self, section)) for section in SORTED}
        names["priorities"] = tuple(priority.name for priority in self.queues.priorities)
        names["roles"] = tuple(role.name for role in self.access.roles)
        sections: dict[str, Any] = {section: dict(enumerate(getattr(self, section))) for section in SORTED}
        sections |= {section: getattr(self, section) for section in SECTIONS}
        return PartialPlatform(
            platform=self.platform,
            renamed_from=self.renamed_from or "",
            removed=tuple(self.removed),
            patched_tenants={
                index: patch.target.tenant for index, patch in enumerate(self.patches) if patch.target.tenant
            },
            names=names,
            **sections,
        )

    def pool(self, name: str) -> Pool:
        """Return the pool with a name.

        Raises:
            KeyError: no pool has this name. The message suggests a similar name.
        """
        by_name = {pool.name: pool for pool in self.pools}
        if name not in by_name:
            raise KeyError(f"there is no pool `{name}`; {suggest(name, by_name)}")
        return by_name[name]

    def bind(self, runtime: Runtime) -> Runtime:
        """Return a copy of a runtime with its entry of `families`; the runtime itself if `use` names none of them."""
        return runtime.with_family(entry.family for entry in self.families)

    @property
    def has_own_images(self) -> bool:
        """Return True if teams may copy a runtime with another image."""
        return any(runtime.images for runtime in self.runtimes)

    @property
    def features(self) -> frozenset[str]:
        """The optional features that the platform uses, which add kinds of object to a release or rules to roles."""
        used = {
            "dashboard": self.cluster.openshift_ai is not None,
            "own-images": self.has_own_images,
            "schedules": self.policies.schedules is not None,
        }
        return frozenset(name for name, is_used in used.items() if is_used)

    @property
    def catalogue_namespace(self) -> str:
        """The namespace of the ConfigMap with the objects that all teams share."""
        return f"{self.platform}{CATALOGUE_NAMESPACE}"

    @property
    def operators(self) -> Callers:
        """The users and groups that may change generated objects: admins, Argo CD and `system:masters`."""
        argo_cd = [self.gitops.account_on(self.cluster)] if self.gitops else []
        return to_callers([*self.access.admin, *argo_cd, f"group:{SUPERUSERS}"])

    def cohort_of(self, tenant: Tenant) -> str:
        """Return the cohort of a tenant's ClusterQueue.

        The default is the platform's root Cohort. For tenants with `multiKueue`, the default is their own root Cohort.
        """
        if tenant.cohort:
            return tenant.cohort
        return workers_cohort(self.platform) if tenant.multi_kueue else self.platform

    @cached_property
    def supplies(self) -> tuple[Supply, ...]:
        """The resources that each pool provides to quotas."""
        return tuple(pool_supply(pool, self.queues.counting) for pool in self.pools)

    @cached_property
    def remote_cohorts(self) -> AbstractSet[str]:
        """The names of the cohorts in trees with tenants whose jobs run on other clusters."""
        return remote_cohorts(self.tenants, self.cohorts)

    def digest(self) -> str:
        """Return the SHA-256, in hexadecimal, of all fields except `release`. Equal platforms have equal digests."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"release"}, exclude_defaults=True)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


def explain(error: ValidationError, data: object, *, by_name: bool = False) -> list[Mistake]:
    """Return every mistake in the data of a platform, although pydantic skips the rules if a field is invalid.

    Args:
        error: pydantic's error: of invalid fields, or of the rules between sections.
        data: the data of the file, or the arguments of a Platform.
        by_name: True for arguments, whose fields can have their names in Python. The paths of mistakes between sections
            then have the names of entries in place of their positions, as if all fields were valid.
    """
    is_valid = all(detail["type"] == RULE_BROKEN for detail in error.errors())
    invalid = [] if is_valid and not by_name else mistakes_in(error, Platform, by_name=by_name)
    if not isinstance(data, dict) or (is_valid and by_name):
        return invalid
    aliases = {name: info.alias or name for name, info in Platform.model_fields.items()}
    partial, contradictions = salvage(data, aliases, by_name=by_name)
    broken = find_mistakes(partial)
    if by_name:
        broken = [replace(mistake, path=_name_entry(mistake.path, partial.names)) for mistake in broken]
    return [*dict.fromkeys([*invalid, *contradictions, *broken])]


def _read_json(text: str | bytes | bytearray) -> object:
    """Return the value of a JSON text; None if it is not JSON, which pydantic reports."""
    try:
        return from_json(text)
    except ValueError:
        return None


def _name_entry(path: Steps, names: Mapping[str, Sequence[str]]) -> Steps:
    """Replace the position of an entry by its name, if messages can show the name."""
    match path:
        case (str(section), int(index), *rest) if section in SORTED:
            return (section, names[section][index] or index, *rest)
    return path


def platform_schema() -> str:
    """Return the JSON Schema of a platform file as text."""
    schema = untitled(Platform.model_json_schema(by_alias=True))
    patterns = schema["properties"]["environments"]["patternProperties"]
    patterns |= {key: {"anyOf": [{"$ref": _DIFFERENCE_OF_PLATFORM}, {"type": "null"}]} for key in patterns}
    platform = {key: schema[key] for key in ("type", "properties", "additionalProperties")}
    differences = {
        f"{name}{_DIFFERENCE}": _to_difference(part) for name, part in {**schema["$defs"], "Platform": platform}.items()
    }
    top = differences[f"Platform{_DIFFERENCE}"]["properties"]
    del top["environments"]
    top["without"] = {
        "type": "object",
        "description": "Section → the names of entries of the base that this environment does not have.",
        "propertyNames": {"enum": [*SORTED, "patches"]},
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    }
    content = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mpigen platform",
        **schema,
        "$defs": {**schema["$defs"], **differences},
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


_DIFFERENCE = ".difference"
"""The suffix of a definition for the differences of an environment: all fields are optional except `name`."""
_DIFFERENCE_OF_PLATFORM = f"#/$defs/Platform{_DIFFERENCE}"


def _to_difference(node: Any) -> Any:
    """Return the schema of a part of a platform for the differences of an environment, without descriptions."""
    if isinstance(node, list):
        return [_to_difference(item) for item in node]
    if not isinstance(node, dict):
        return node
    left_out = {"required", "default", "examples", "description", "minItems", "minProperties"}
    part = {key: value for key, value in node.items() if key not in left_out}
    if "$ref" in node:
        part["$ref"] = f"{node['$ref']}{_DIFFERENCE}"
    for key in ("items", "additionalProperties", "anyOf", "oneOf", "propertyNames"):
        if key in part:
            part[key] = _to_difference(part[key])
    if "properties" in part:
        part["properties"] = {key: _to_nullable(key, value) for key, value in node["properties"].items()}
    return {**part, "required": ["name"]} if "name" in node.get("required", ()) else part


def _to_nullable(key: str, node: Any) -> Any:
    changed = _to_difference(node)
    return changed if key == "name" else {"anyOf": [changed, {"type": "null"}]}


def untitled(node: Any) -> Any:
    """Remove pydantic's titles, which repeat each field's name, and join the lines of docstrings."""
    if isinstance(node, list):
        return [untitled(item) for item in node]
    if not isinstance(node, dict):
        return " ".join(node.split()) if isinstance(node, str) else node
    return {key: untitled(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))}
