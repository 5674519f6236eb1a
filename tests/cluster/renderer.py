"""`python -P renderer.py`: render platforms with other copies of the generator, unchecked, one for each line of stdin.

A line is `[folder of the copy, platform file]`. The answer is a line too: `{"tree": {file: text}}`, or
`{"error": …}`. What the copies need is imported once: Node and pydantic take longer than the rendering.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path


def render(folder: str, platform_file: str) -> dict[str, object]:
    """Return the files of the tree, from the generator in that folder."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "generator"]:
        del sys.modules[name]
    sys.path[:1] = [folder]
    importlib.invalidate_caches()
    pipeline = importlib.import_module("generator.pipeline")
    manifests = importlib.import_module("generator.manifests")
    if not Path(pipeline.__file__ or "").is_relative_to(folder):
        return {"error": f"{pipeline.__file__} ran instead of the copy"}
    tree = pipeline.render(*pipeline.load(Path(platform_file)))
    return {"tree": manifests.write(tree)}


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, "")
    for line in sys.stdin:
        try:
            answer = render(*json.loads(line))
        except Exception:  # noqa: BLE001 - whatever a broken generator does, it is the answer
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)  # noqa: T201
