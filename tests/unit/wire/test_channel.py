"""When a refused call is to be tried again, as the one who refused it says."""

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from scope_wire.channel import pushback, pushback_s


def _refused(*metadata: tuple[str, str]) -> AioRpcError:
    return AioRpcError(grpc.StatusCode.UNAVAILABLE, Metadata(), Metadata(*metadata), None, None)


@pytest.mark.parametrize("in_s", [0.0, 1.0, 2.5, 60.0])
def test_what_is_said_is_read(in_s: float) -> None:
    """The pause, to the millisecond."""
    assert pushback_s(_refused(*pushback(in_s))) == in_s


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.5", "9" * 10, "9" * 400, "9" * 5000])
def test_what_is_no_time_is_not_taken_for_one(text: str) -> None:
    """A peer may send anything; Python refuses to divide, or even to read, numbers of hundreds of digits."""
    ((name, _),) = pushback(1.0)
    assert pushback_s(_refused((name, text))) is None
    assert pushback_s(_refused()) is None
