"""mpigen: one platform.yaml becomes a checked, plain-YAML GitOps tree for MPI training.

The public API has five groups of names. `__init__.pyi` lists the names, for type checkers and for this module, and
docs/reference/api.md describes them:

- the flow: `load`, `render`, `judge`, `plan`, `synth` and `validate` return typed values;
- the platform in Python: `Platform`, `App`, `Component`, `MpiRuntime`;
- jobs: `catalogue`, `JobRequest`, `new_job`, `check_jobs`, `compile_jobs`, `queues` and `can_i`, for people who train;
- own checks: `check`, `Breach`, `ERROR`, `WARNING`, `INFO`, and the classes of the objects that a check reads;
- errors: each is an `MpigenError` with all problems of the input.

The types of results, such as `Checked`, and the sections of a platform, such as `Pool`, can be imported as well, but
are not in `__all__`.

Each name is imported on first use, because the modules in `generator.components` start Node.js. jsii finds Node.js
through environment variables, so this module reads the environment. Only the command line also reads it.
"""

from __future__ import annotations

import ast
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_ABOVE = "# Results: "
"""The start of the line in the stub that separates the names of `__all__`, above it, from the other names."""


@cache
def _modules(until: str = "") -> dict[str, str]:
    """Return public name → its module, for the names in the stub `__init__.pyi` above the text `until`; '' for all."""
    stub = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    body = ast.parse(stub[: stub.index(until)] if until else stub).body
    return {name.name: part.module or "" for part in body if isinstance(part, ast.ImportFrom) for name in part.names}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*_modules(_ABOVE)]
    if name.startswith("_") or name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _modules()[name]
    if module.startswith("generator.components."):
        from generator.components.node import provide_node

        provide_node(os.environ)
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return [*globals(), *_modules()]
