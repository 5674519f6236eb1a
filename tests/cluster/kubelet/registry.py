"""`python -m tests.cluster.kubelet.registry PORT IMAGES`: serve the images of the JSON file IMAGES for containerd.

IMAGES maps a repository such as `openmpi-5` to the descriptor of its manifest. Every tag of a repository is this
manifest. The API is that of github.com/opencontainers/distribution-spec v1.1.1 spec.md, "Pull".
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.kubelet.layout import MANIFEST, Blobs, Descriptor, blobs

_PATH = re.compile(r"/v2/(?P<name>[a-z0-9./-]+)/(?P<kind>manifests|blobs)/(?P<reference>[^/]+)")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stored: Blobs
    images: dict[str, Descriptor]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        if urlsplit(self.path).path == "/v2/":
            self._headers(HTTPStatus.OK, "application/json", 0)
            return
        digest, media_type = self._wanted()
        file = self.stored.path(digest)
        if not digest or not file.is_file():
            self._headers(HTTPStatus.NOT_FOUND, "application/json", 0)
            return
        self._headers(HTTPStatus.OK, media_type, file.stat().st_size, digest)
        if with_body:
            with file.open("rb") as content:
                shutil.copyfileobj(content, self.wfile, 1 << 20)

    def _wanted(self) -> tuple[str, str]:
        """Return the digest and the media type of the requested blob, or empty strings."""
        found = _PATH.fullmatch(urlsplit(self.path).path)
        if not found:
            return "", ""
        reference, is_manifest = found["reference"], found["kind"] == "manifests"
        if is_manifest and not reference.startswith("sha256:"):
            reference = str(self.images.get(found["name"], {}).get("digest", ""))
        return reference, MANIFEST if is_manifest else "application/octet-stream"

    def _headers(self, status: HTTPStatus, media_type: str, size: int, digest: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(size))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()


def main() -> None:
    """Serve until the node ends."""
    port, images = sys.argv[1:]
    _Handler.stored, _Handler.images = blobs(), json.loads(Path(images).read_text())
    ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main()
