"""Why handshakes failed is read from gRPC's lines on standard error, which must pass everything else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scope_wire.refused.handshakes import reason_of
from scope_wire.refused.refusals import Reason

ERROR = "Handshake failed with error SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"
PROGRAM = """
import os, sys
from scope_wire.refused.handshakes import read_standard_error
found = []
with read_standard_error(lambda reason, said: found.append(reason.value)):
    print("a line of ours", file=sys.stderr, flush=True)
    line = "I1125 01:48:11.172191   18358 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
    os.write(2, (line + "error:1:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER: x\\n").encode())
    os.write(2, b"I1125 01:48:11.172191   18358 fork_posix.cc:71] something else of gRPC's\\n")
    os.write(2, b"no end of line")
print("after", file=sys.stderr, flush=True)
print(found)
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE: Invalid certificate verification context", Reason.NO_CERTIFICATE),
        ("CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate", Reason.AUTHORITY),
        ("CERTIFICATE_VERIFY_FAILED: certificate has expired", Reason.EXPIRED),
        ("WRONG_VERSION_NUMBER: Invalid certificate verification context", Reason.PLAIN_TEXT),
        ("HTTP_REQUEST", Reason.PLAIN_TEXT),
        ("NO_SHARED_CIPHER", Reason.HANDSHAKE),
    ],
)
def test_reasons(said: str, reason: Reason) -> None:
    """Each of gRPC's words has its reason; one that is not known is a failed handshake."""
    assert reason_of(ERROR + said) is reason


def test_other_lines_have_none() -> None:
    """Only failed handshakes count."""
    assert reason_of("Fork support is disabled") is None


def test_other_lines_pass() -> None:
    """What others write to standard error arrives there, in order, also after the end and without an end of line."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "src")}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert ran.stderr == "a line of ours\nno end of lineafter\n"
    assert ran.stdout == "['plain_text']\n"
