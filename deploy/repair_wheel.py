"""`auditwheel repair`, with libz bundled too: arguments as for `auditwheel repair`.

auditwheel leaves to the host what every Linux has by PEP 600, libz among it; so does not every container. It has no
option for that, so it is given its own list of such libraries without libz.
"""

import json
import sys
import tempfile
from pathlib import Path

from auditwheel import policy
from auditwheel.main import main

BUNDLED = "libz.so.1"


def shorten(known: Path, folder: str) -> Path:
    """A copy of a file of policies whose lists lack `BUNDLED`."""
    policies = json.loads(known.read_text())
    for each in policies:
        each["lib_whitelist"] = [name for name in each["lib_whitelist"] if name != BUNDLED]
        each["blacklist"].pop(BUNDLED, None)
    shorter = Path(folder) / known.name
    shorter.write_text(json.dumps(policies))
    return shorter


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for libc, known in policy._POLICY_JSON_MAP.items():
            policy._POLICY_JSON_MAP[libc] = shorten(known, scratch)
        sys.argv[1:1] = ["repair"]
        sys.exit(main())
