"""Maps files and computes in the code of each for some time: called_files.py OFFSET FILE..."""

import ctypes
import os
import sys
import time

CALL_S = 0.1  # of CPU time, in each file
PROT_READ, PROT_EXEC, MAP_PRIVATE = 1, 4, 2  # include/uapi/asm-generic/mman-common.h

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

offset = int(sys.argv[1])
for path in sys.argv[2:]:
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size - offset
    call = ctypes.CFUNCTYPE(None)(libc.mmap(None, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, offset))
    end = time.process_time() + CALL_S
    while time.process_time() < end:
        call()
