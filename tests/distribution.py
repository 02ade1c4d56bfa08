"""Which worker runs which tests: those of a file stay together, since they share fixtures."""

import pytest
from xdist.scheduler import LoadFileScheduling

_SPREAD = ("tests/chaos/",)  # each test has a stack of its own
_OF_UP = "tests/e2e/test_up.py"  # these use one `scope up`
_TOGETHER = {
    **{f"tests/e2e/test_{name}.py": _OF_UP for name in ("containers", "cuda", "llm", "metrics", "readme", "span")},
    "tests/e2e/test_gpu_check.py": "tests/e2e/test_wheel.py",  # both make the wheel
}


class Distribution(LoadFileScheduling):
    """One file, one worker; of the folders in `_SPREAD`, each test goes where there is room."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if nodeid.startswith(_SPREAD) else _TOGETHER.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Distribution:
    """Replaces what `--dist` names. Files start in the order in which they were collected."""
    return Distribution(config, log)
