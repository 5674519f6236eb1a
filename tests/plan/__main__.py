"""Record the effects of all cases, or of the cases of some topics: `python -m tests.plan [TOPIC…]`."""

from __future__ import annotations

import sys

from tests.plan import GOLDEN, TOPICS, golden, record

for topic in sys.argv[1:] or TOPICS:
    record(topic)
for name, text in golden().items():
    (GOLDEN / name).write_text(text, "utf-8")
