"""Traces a process as a debugger does, and leaves it stopped."""

import ctypes
import os
import sys
import time

ATTACH = 16
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(ATTACH, int(sys.argv[1]), None, None) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(int(sys.argv[1]), 0x40000000)
open(os.environ["READY"], "w").close()
time.sleep(3600)
