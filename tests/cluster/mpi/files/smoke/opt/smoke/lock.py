"""Every rank locks 64 MiB, as RDMA does; rank 0 prints what the kernel said to each, as JSON."""

import ctypes
import json
import mmap
import os
import resource
import socket

from mpi4py import MPI  # type: ignore[import-not-found]  # it is in the image only

SIZE = 64 << 20

memory = mmap.mmap(-1, SIZE)
libc = ctypes.CDLL(None, use_errno=True)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
refused = libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(SIZE))
told = MPI.COMM_WORLD.gather(
    {
        "host": socket.gethostname(),
        "user": os.getuid(),
        "limit": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "locked": os.strerror(ctypes.get_errno()) if refused else "yes",
        "number": os.environ.get("RANK"),
    }
)
if told is not None:
    print(json.dumps({"ranks": told}))  # noqa: T201
