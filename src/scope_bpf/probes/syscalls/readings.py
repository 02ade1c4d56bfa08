"""Which arguments the programs read, by call and by how much is wanted."""

from collections.abc import Mapping

import numpy as np

from scope_bpf.catalogue.stream import Rows
from scope_bpf.probes.syscalls.signatures import CALLS

NOTHING, REGISTERS, PATHS, ALL = LEVELS = ("none", "registers", "paths", "all")
MOST_DATA_BYTES = 1024  # reading.bpf.h

_READ = {  # enum syscall_read, reading.bpf.h, by type
    PATHS: {
        "fd": "READ_DESCRIPTOR",
        "dirfd": "READ_DIRECTORY",
        "path": "READ_PATH",
        "path_at": "READ_TEXT",
        "text": "READ_TEXT",
        "pair": "READ_PAIR",
        "filled_text": "READ_FILLED_TEXT",
    },
    ALL: {
        "string": "READ_STRING",
        "words": "READ_WORDS",
        "data": "READ_DATA",
        "sockaddr": "READ_ADDRESS",
        "filled": "READ_FILLED",
        "filled_sockaddr": "READ_FILLED_ADDRESS",
    },
}
_READ_RESULT = {"fd": "READ_DESCRIPTOR", "exec": "READ_REPLACED"}


def reading_table(level: str, kinds: Mapping[str, int], numbers: Mapping[str, int]) -> Rows:
    """By number of call, how each argument is read, then the result, then 0: shape (calls, 8), uint8.

    Args:
        level: one of LEVELS.
        kinds: of enum syscall_read.
        numbers: of calls, by name.
    """
    table = np.zeros((max(numbers.values()) + 1, 8), np.uint8)
    if level not in (PATHS, ALL):
        return table
    types = _READ[PATHS] if level == PATHS else _READ[PATHS] | _READ[ALL]
    for name, call in CALLS.items():
        if name in numbers:
            row = table[numbers[name]]
            for signature in (call.plain, *call.by_command.values()):
                for place, type_ in enumerate(signature.arguments):
                    if type_ in types:
                        row[place] = kinds[types[type_]]
            row[6] = kinds[_READ_RESULT.get(call.plain.result, "READ_NOT")]
    return table
