"""Record the effects of all cases, or of the cases of some topics: `python -m tests.plan [TOPIC…]`."""

from __future__ import annotations

import sys

from tests.plan import TOPICS, record

for topic in sys.argv[1:] or TOPICS:
    record(topic)
