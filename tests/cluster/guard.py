"""`python guard.py PARENT COMMAND…`: become COMMAND, and be killed by the kernel as soon as process PARENT is gone.

A test run that is killed cannot clean up. Linux can: PR_SET_PDEATHSIG survives exec.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, *command = sys.argv[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(parent):  # it died before we asked
        sys.exit("the parent is gone")
    os.execv(command[0], command)
