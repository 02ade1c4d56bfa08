"""LIBRARY: stops itself once NCCL is loaded, then calls functions that fail without a GPU, and prints their results."""

import ctypes
import os
import signal
import sys

library = ctypes.CDLL(sys.argv[1])


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def call(name, *arguments):
    print(name, getattr(library, name)(*arguments), flush=True)


os.kill(os.getpid(), signal.SIGSTOP)
unique_id, comm = UniqueId(), ctypes.c_void_p()
library.ncclGetUniqueId(ctypes.byref(unique_id))
call("ncclCommInitRank", ctypes.byref(comm), 2, unique_id, 1)
call("ncclCommInitAll", ctypes.byref(comm), 1, None)
call("ncclAllReduce", None, None, ctypes.c_size_t(1009), 7, 1, None, None)
call("ncclSend", None, ctypes.c_size_t(211), 9, 3, None, None)
library.ncclGroupStart()
call("ncclBcast", None, ctypes.c_size_t(211), 9, 3, None, None)
call("ncclGroupEnd")
call("ncclCommDestroy", None)
