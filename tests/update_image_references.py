"""Record the verdicts of github.com/distribution/reference: `python -m tests.update_image_references`.

It needs Go, and fetches the library as a Go module. The kubelet calls the same function.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from random import Random

from tests.conftest import ROOT

TABLE = ROOT / "tests/fixtures/image-references.jsonl"
_PROGRAM = """package main

import (
	"bufio"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/json"
	"fmt"
	"os"

	"github.com/distribution/reference"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			panic(err)
		}
		_, err := reference.ParseNormalizedNamed(text)
		row, _ := json.Marshal([]any{text, err == nil})
		fmt.Println(string(row))
	}
}
"""
_DIGEST = "0123456789abcdef" * 4
_SEEDS = (
    *("", "A", "ubuntu", "ubuntu:22.04", "Ubuntu", "ubuntu:Tag", "ubuntu:", "ubuntu@", "localhost/x", "LOCALHOST/x"),
    *("quay.io/acme/openmpi:5.0", "https://quay.io/a", "quay.io/a b", " a", "a ", "a\n", "é", "example.com:80"),
    *("docker.io/ubuntu", "index.docker.io/ubuntu", "[::1]:5000/a", "[fe80::1%eth0]/a", "1.2.3.4:80/x", "x:80/y"),
    *("q.io/a__b", "q.io/a___b", "q.io/a..b", "q.io/a--b", "q.io/-a", "q.io/a-", "q.io//a", "/a", "a/", "q-.io/a"),
    *(_DIGEST, f"a/{_DIGEST}", f"a@sha256:{_DIGEST}", f"a:t@sha256:{_DIGEST}", f"a@sha256:{_DIGEST[:10]}"),
    *(
        f"a@sha512:{_DIGEST * 2}",
        f"a@sha384:{_DIGEST[:32] * 3}",
        f"a@sha256:{_DIGEST.upper()}",
        f"a@md5:{_DIGEST[:32]}",
    ),
    *(
        "x" * 255,
        "x" * 256,
        f"q.io/{'x' * 255}",
        f"q.io/{'x' * 256}",
        f"a:{'t' * 128}",
        f"a:{'t' * 129}",
        "a:.t",
        "a:-t",
    ),
    f"registry.example.com:5000/a/b@sha256:{_DIGEST}",
)
_LETTERS = "aA0._-:/@[] +"
_ROWS = 2500


def candidates() -> list[str]:
    """Return strings near the border between valid and invalid image references, always the same."""
    chance, found = Random(7), set(_SEEDS)
    while len(found) < _ROWS:
        text = chance.choice(_SEEDS)
        for _ in range(chance.randint(1, 3)):
            at = chance.randint(0, len(text))
            other = chance.choice(_SEEDS)
            text = chance.choice(
                (
                    text[:at] + chance.choice(_LETTERS) + text[at:],
                    text[:at] + text[at + 1 :],
                    text[:at] + other[chance.randint(0, len(other)) :],
                )
            )
        found.add(text)
    return sorted(found)


def main() -> None:
    """Write the table."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "main.go").write_text(_PROGRAM, "utf-8")
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        for command in (["mod", "init", "record"], ["get", "github.com/distribution/reference@v0.6.0"]):
            subprocess.run(["go", *command], cwd=folder, env=environment, check=True)
        asked = "\n".join(json.dumps(text) for text in candidates())
        answer = subprocess.run(
            ["go", "run", "."], cwd=folder, env=environment, input=asked, capture_output=True, text=True, check=True
        )
    TABLE.write_text(answer.stdout, "utf-8")


if __name__ == "__main__":
    main()
