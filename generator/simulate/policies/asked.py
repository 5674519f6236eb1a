"""One policy, asked about one request. What expressions cost is not counted.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/policy/validating/validator.go, and
pkg/admission/plugin/webhook/matchconditions/matcher.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.manifests import Body
from generator.simulate.policies.environment import named
from generator.simulate.policies.errors import UNSET
from generator.simulate.policies.expression import Expression, Failed
from generator.simulate.policies.policy import Policy, Validation
from generator.simulate.policies.request import Request

_LONGEST_MESSAGE = 5 * 1024  # bytes; pkg/apis/cel/config.go


@dataclass(frozen=True, slots=True)
class Decision:
    """What one rule said of a request, with one parameter.

    Attributes:
        policy: its name.
        rule: the number of the rule in the policy, from 0; None where none was asked.
        holds: whether the request may pass, as far as the rule goes.
        actions: what the binding does where it may not.
        message: what is said then.
        reason: of the refusal.
        is_error: whether the rule could not be evaluated, or asked.
    """

    policy: str
    rule: int | None
    holds: bool
    actions: tuple[str, ...]
    message: str = ""
    reason: str = "Invalid"
    is_error: bool = False


def misconfigured(policy: Policy, message: str) -> Iterator[Decision]:
    """Refused whatever the binding says: dispatcher.go `addConfigError`."""
    if not policy.ignores_errors:
        yield Decision(policy.name, None, holds=False, actions=("Deny",), message=message, is_error=True)


class Asked:
    """One policy, asked about one request with one parameter."""

    def __init__(
        self, policy: Policy, actions: tuple[str, ...], request: Request, namespace: Body | None, param: Body | None
    ) -> None:
        """Put the request to it.

        Args:
            policy: the policy.
            actions: what its binding does where it is broken.
            request: who asks for what.
            namespace: the Namespace of the request; None for what is in none, and for Namespaces.
            param: the parameter; None for a policy without.
        """
        self.policy = policy
        self.actions = actions
        self.data: dict[str, Any] = {
            "object": request.object,
            "oldObject": request.old,
            "request": request.variable(),
            "namespaceObject": None,
            "params": param,
        }
        self.namespace = namespace
        self.failed: dict[str, str] = {}

    def decisions(self) -> Iterator[Decision]:
        """What each rule says; nothing where the conditions do not hold.

        Raises:
            NotModelledError: an expression cannot be evaluated here.
        """
        met = self._conditions()
        if isinstance(met, Failed):
            yield from self._error(None, met.words)
        if met is not True:
            return
        self.data["namespaceObject"] = self.namespace  # conditions do not see it: matcher.go `Match`
        for number, rule in enumerate(self.policy.validations):
            yield from self._validated(number, rule)
        yield from self._annotated()

    def _conditions(self) -> bool | Failed:
        """One that does not hold outweighs all errors."""
        errors = []
        for _, expression in self.policy.conditions:
            result = self._evaluated(expression)
            if result is False:
                return False
            if isinstance(result, Failed):
                errors.append(result.words)
        if not errors:
            return True
        words = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return False if self.policy.ignores_errors else Failed(words)

    def _validated(self, number: int, rule: Validation) -> Iterator[Decision]:
        result = self._evaluated(rule.expression)
        if isinstance(result, Failed):
            yield from self._error(number, result.words)
        elif result is True:
            yield Decision(self.policy.name, number, holds=True, actions=self.actions)
        else:
            message = self._message(rule)
            yield Decision(
                self.policy.name, number, holds=False, actions=self.actions, message=message, reason=rule.reason
            )

    def _error(self, number: int | None, words: str) -> Iterator[Decision]:
        holds = self.policy.ignores_errors
        yield Decision(self.policy.name, number, holds, self.actions, "" if holds else words, is_error=True)

    def _annotated(self) -> Iterator[Decision]:
        """An annotation that is an error refuses the request, whatever the binding says."""
        for _, expression in self.policy.annotations:
            result = self._evaluated(expression)
            if isinstance(result, Failed):
                yield from misconfigured(self.policy, result.words)

    def _message(self, rule: Validation) -> str:
        result = self._evaluated(rule.words) if rule.words else ""
        said = result.strip() if isinstance(result, str) else ""
        if "\n" in said or len(said.encode()) > _LONGEST_MESSAGE:
            said = ""
        return said or rule.message.strip() or f"failed expression: {rule.expression.text.strip()}"

    def _evaluated(self, expression: Expression) -> Any:
        result = expression.evaluate(self._readable(expression))
        if not isinstance(result, Failed):
            return result
        words = result.words
        if words.startswith(UNSET):
            name = words.removeprefix(UNSET)
            words = f'composited variable "{name}" fails to evaluate: {self.failed[name]}'
        if expression.problem:
            return Failed(words)
        return Failed(f"expression '{expression.text}' resulted in error: {words}")

    def _readable(self, expression: Expression) -> Mapping[str, Any]:
        """The data, with the variables of the policy that an expression reads and that are no errors."""
        for name in expression.reads:
            key, variable = named(("variables", name)), self.policy.variables.get(name)
            if variable is None or key in self.data or name in self.failed:
                continue
            value = variable.evaluate(self._readable(variable))
            if isinstance(value, Failed):
                self.failed[name] = self._words(value)
            else:
                self.data[key] = value
        return self.data

    def _words(self, failed: Failed) -> str:
        name = failed.words.removeprefix(UNSET)
        if name == failed.words:
            return name
        return f'composited variable "{name}" fails to evaluate: {self.failed[name]}'
