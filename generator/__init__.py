"""mpigen: one platform.yaml becomes a checked, plain-YAML GitOps tree for MPI training.

`__init__.pyi` lists the public API, for type checkers and for this module. A name is imported on first use, because
some of them start Node.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


@cache
def _modules() -> dict[str, str]:
    """Return public name → module, from the stub."""
    stub = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    imports = re.findall(r"^from (generator\.\S+) import \w+ as (\w+)$", stub, re.MULTILINE)
    return {name: module for module, name in imports}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*_modules()]
    if name.startswith("_") or name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_modules()[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_modules()]
