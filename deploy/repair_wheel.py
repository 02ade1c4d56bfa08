"""Runs `auditwheel repair`, but also bundles libz. Arguments are those of `auditwheel repair`.

auditwheel does not bundle libraries that every Linux should have by PEP 600, such as libz; but some containers lack
libz. auditwheel has no option for this, so it gets a copy of its own list without libz.
"""

import json
import sys
import tempfile
from pathlib import Path

from auditwheel import policy
from auditwheel.main import main

BUNDLED = "libz.so.1"


def shorten(known: Path, folder: str) -> Path:
    """A copy of a policy file, without `BUNDLED` in its lists."""
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
