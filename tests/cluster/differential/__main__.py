"""`python -m tests.cluster.differential` writes the generated cases anew."""

from tests.cluster.differential.cases import GENERATED
from tests.cluster.differential.generate import generate

GENERATED.write_text(generate(), encoding="utf-8")
