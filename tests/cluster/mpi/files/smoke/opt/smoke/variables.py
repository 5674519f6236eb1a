"""`python3 variables.py NAME…`: what the variables of those names are here, as JSON. It needs no MPI to start."""

import json
import os
import socket
import sys

print(json.dumps({"host": socket.gethostname(), **{name: os.environ.get(name) for name in sys.argv[1:]}}))  # noqa: T201
