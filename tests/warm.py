"""Run `mpigen` as forks of a process that has imported its modules: an import takes half the time of a short command.

Each run is its own process with its own arguments, folder, environment and streams, and starts Node.js itself. Only the
imports are shared. Tests of the process itself, and the console sessions of the docs, start `mpigen` anew.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

MPIGEN = Path(sys.executable).with_name("mpigen")
_NOT_IMPORTED = ("generator.components", "generator.__main__")
"""Modules that a fork imports itself: they start Node.js, or run mpigen."""
_READ_AT_START = ("PYTHON", "LC_", "LANG")
"""The beginnings of the names of variables that only a new Python reads."""


class Warm:
    """A process that has imported mpigen, and forks itself for each run."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
            )

    def run(
        self, arguments: list[str], cwd: Path, environment: Mapping[str, str], stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `mpigen ARGUMENTS…` to its end, and return its exit code and its output."""
        if _of_start(environment) != _of_start(self._environment):
            return run_cold(arguments, cwd, environment, stdin)
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "environment": {**environment}})
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            socket.send_fds(self._socket, [b"\0"], [given.fileno(), out.fileno(), err.fileno()])
            self._socket.sendall(f"{request}\n".encode())
            answer = self._socket.recv(16)
            if not answer:
                raise RuntimeError("the process that has imported mpigen ended")
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode().replace("\r\n", "\n").replace("\r", "\n"))
        return subprocess.CompletedProcess([str(MPIGEN), *arguments], int(answer), *texts)

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()


def run_cold(
    arguments: list[str], cwd: Path, environment: Mapping[str, str], stdin: str
) -> subprocess.CompletedProcess[str]:
    """Run `mpigen ARGUMENTS…` in a new Python."""
    return subprocess.run(
        [MPIGEN, *arguments], cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, check=False
    )


def _of_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _serve(connection: socket.socket) -> None:
    """Import mpigen, and fork for each request until the other end closes the connection."""
    import generator

    for module in pkgutil.walk_packages(generator.__path__, "generator."):
        if not module.name.startswith(_NOT_IMPORTED):
            importlib.import_module(module.name)
    while True:
        _, streams, *_ = socket.recv_fds(connection, 1, 3)
        if not streams:
            return
        request = b""
        while not request.endswith(b"\n"):
            request += connection.recv(1 << 20)
        child = os.fork()
        if not child:
            connection.close()
            _become(streams, **json.loads(request))
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def _become(streams: list[int], arguments: list[str], cwd: str, environment: dict[str, str]) -> NoReturn:
    """Run the console script in this process, and end it."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(cwd)
        sys.argv = [str(MPIGEN), *arguments]
        sys.path.insert(0, str(MPIGEN.parent))
        from generator.cli.main import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 - what Python does at the end of a script that raises
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
