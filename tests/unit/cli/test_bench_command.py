"""`scope bench fleet` with a Redis that it cannot measure."""

import pytest

from scope_cli.main import main


@pytest.mark.parametrize(
    ("redis", "said"),
    [
        ("http://a", "is no address of a Redis; write it as redis://HOST:PORT/DB"),
        ("redis+cluster://a,b", "must be one server, whose CPU time is measured: redis://, rediss:// or unix://"),
        ("redis+sentinel://a/main", "must be one server"),
    ],
)
def test_another_redis_is_wrong_usage(redis: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and what to give instead, before anything is started."""
    with pytest.raises(SystemExit) as ended:
        main(["bench", "fleet", "--redis", redis])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
