"""What the expressions of a policy read that are evaluated together: the request, and the policy's own variables.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/policy/validating/validator.go `Validate` evaluates conditions, rules,
messages and annotations apart. Each sees other data, also through variables, which are evaluated once in each:
conditions see no namespace (pkg/admission/plugin/webhook/matchconditions/matcher.go), messages and annotations no
authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generator.simulate.policies.compiled import Expression, Failed
from generator.simulate.policies.environment import named
from generator.simulate.policies.errors import UNSET
from generator.simulate.policies.policy import Policy


class Values:
    """Data, and whatever variables have been evaluated with it."""

    def __init__(self, policy: Policy, data: Mapping[str, Any]) -> None:
        """Start without any.

        Args:
            policy: whose variables they are.
            data: name → value; what is not there is an error where it is read.
        """
        self.policy = policy
        self.data = dict(data)
        self.failed: dict[str, str] = {}

    def of(self, expression: Expression) -> Any:
        """The result of an expression, or `Failed` with all that the API server says then.

        Raises:
            NotModelledError: it cannot be evaluated here.
        """
        result = expression.evaluate(self._readable(expression))
        if not isinstance(result, Failed):
            return result
        words = self._words(result)
        return Failed(words if expression.problem else f"expression '{expression.text}' resulted in error: {words}")

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
