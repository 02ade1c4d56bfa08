"""What the files of a cgroup say, in the words of kernels of several ages."""

from pathlib import Path

import pytest

from scope_bpf.cgroups.files import CONTROLLERS, COUNTS, SIZES, TIMES, UNIFIED, read

FILES = {
    "cpu.stat": "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 7\nnr_throttled 3\nthrottled_usec 11\n",
    "cpu.pressure": "some avg10=1.00 avg60=0.00 avg300=0.00 total=13\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    "memory.events": "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\nsock_throttled 7\n",
    "memory.current": "4096\n",
    "memory.max": "max\n",
    "memory.stat": "anon 1000\nfile 2000\nkernel 300\nanon_thp 9\nfile_mapped 9\n",
    "io.stat": "900:0 rbytes=100 wbytes=20 rios=3 wios=4 dbytes=9\n900:16 rbytes=1 wbytes=2 rios=3 wios=4\n9:32 \n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_of_version_2(folder: Path) -> None:
    """Times are in ns, I/O is added up over devices; no limit and unknown keys are left out."""
    assert read(str(folder), UNIFIED.always) == {
        **{"cpu": 1_500_000, "user": 1_000_000, "system": 500_000, "throttled": 11_000},
        **{"limited_periods": 7, "throttled_periods": 3, "cpu_pressure": 13_000, "cpu_stalled": 5_000},
        **{"memory_low_events": 1, "memory_high_events": 2, "memory_max_events": 3},
        **{"oom_events": 4, "oom_kills": 5, "oom_group_kills": 6, "memory_bytes": 4096},
        **{"read_bytes": 101, "written_bytes": 22, "reads": 6, "writes": 8},
    }
    assert read(str(folder), UNIFIED.details) == {"anon_bytes": 1000, "file_bytes": 2000, "kernel_bytes": 300}


def test_files_of_version_1(tmp_path: Path) -> None:
    """The same names, from the files of each controller; a limit that is none is left out."""
    blkio = "900:0 Read {0}\n900:0 Write {1}\n900:0 Sync 9\n900:0 Total 9\n900:16 Read 1\n900:16 Write 1\nTotal 9\n"
    for name, text in {
        "blkio.throttle.io_service_bytes_recursive": blkio.format(512, 1024),
        "blkio.throttle.io_serviced_recursive": blkio.format(5, 6),
        "memory.usage_in_bytes": "8192\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        "memory.stat": "cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\ntotal_swap 30\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert read(str(tmp_path), CONTROLLERS["blkio"].always) == {
        **{"read_bytes": 513, "written_bytes": 1025},
        **{"reads": 6, "writes": 7},
    }
    for name in CONTROLLERS["blkio"].always:
        (tmp_path / name).write_text("Total 0\n")
    assert read(str(tmp_path), CONTROLLERS["blkio"].always) == {}, "this kernel does not count"
    assert read(str(tmp_path), CONTROLLERS["memory"].always) == {"memory_bytes": 8192, "oom_kills": 2}
    assert read(str(tmp_path), CONTROLLERS["memory"].details) == {"anon_bytes": 20, "file_bytes": 10, "swap_bytes": 30}


def test_long_files_are_read_whole(tmp_path: Path) -> None:
    """A machine with thousands of disks has a long file."""
    lines = [f"900:{device} rbytes=1 wbytes=2 rios=3 wios=4\n" for device in range(4001)]
    (tmp_path / "io.stat").write_text("".join(lines))
    assert read(str(tmp_path), UNIFIED.always)["written_bytes"] == 2 * 4001


def test_each_figure_has_a_kind() -> None:
    """All figures are among the times, the counts or the sizes, and no name is of two kinds."""
    assert len({*TIMES, *COUNTS, *SIZES}) == len((*TIMES, *COUNTS, *SIZES))
