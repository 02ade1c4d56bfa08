"""Why calls failed: names of what they returned."""

import os

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue.stream import Rows
from scope_catalogue.codes import ERRORS, MOST_ERRNO, RESTARTS


def failure(number: int) -> str:
    """What a call that returned -number failed with: `-1 ENOENT (No such file or directory)`."""
    if number in RESTARTS:
        return "? {} ({})".format(*RESTARTS[number])
    return f"-1 {ERRORS.get(number, f'errno {number}')} ({os.strerror(number)})"


def errors(rows: Rows) -> pa.DictionaryArray:
    """The name of each row's error, shape (count,); null where `ret` is none or the call never returned."""
    failed = (rows["ret"] < 0) & (rows["ret"] >= -MOST_ERRNO) & (rows["returned"] != 0)
    numbers = np.where(failed, -rows["ret"], 0)
    present = np.flatnonzero(np.bincount(numbers, minlength=1))
    codes = np.zeros(MOST_ERRNO + 1, np.int32)
    codes[present] = np.arange(len(present))
    names = pa.array([ERRORS.get(number, str(number)) for number in present.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes[numbers], mask=~failed), names)
