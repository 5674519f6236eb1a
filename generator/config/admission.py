"""`policies.admission`: what becomes of a request that breaks a rule, rule by rule."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from generator.config.fields import Name, Section

Action = Literal["deny", "warn", "audit", "off"]
RuleName = Literal[
    "queue",
    "runtime",
    "images",
    "size",
    "patches",
    "fabric",
    "priority",
    "labels",
    "owner",
    "own-jobs",
    "residency",
    "storage",
    "job-storage",
    "keys",
    "local-queues",
    "runtime-images",
    "generated",
]
"""The rules, as their policies are called after the platform's name."""


class Admission(Section):
    """Start a rule as `audit`, which only writes the API server's log, go on to `warn`, then to `deny`.

    A single word is for all rules: `admission: warn`.
    """

    default: Action = "deny"
    """What becomes of a request that breaks any rule that is not named here."""
    rules: dict[RuleName, Action] = Field(default={})
    """For single rules. `queue`, `runtime`, `images`, `size`, `patches`, `fabric`, `priority`, `labels`, `owner`,
    `own-jobs`, `residency` and `job-storage` are of TrainJobs, `storage` of PersistentVolumeClaims, `keys` of the
    Secrets by which the hosts of a job trust each other, `local-queues` of where LocalQueues lead, `runtime-images` of
    the platform's runtimes, and `generated` of whatever the release holds, which only the platform changes."""
    controllers: tuple[Name, ...] = ()
    """Namespaces whose ServiceAccounts no rule is for, beside those that Kubernetes, Trainer, JobSet and Kueue are
    usually installed in."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_word(cls, value: Any) -> Any:
        return {"default": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """A word, or the section."""
        return {"anyOf": [{"type": "string", "enum": [*get_args(Action)]}, handler(core)]}

    def action(self, rule: str) -> Action:
        """What becomes of a request that breaks this rule."""
        return next((action for name, action in self.rules.items() if name == rule), self.default)
