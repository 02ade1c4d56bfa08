"""The `heap` probe's figures beside those of the program: ages, the peak, allocators linked in, glibc's malloc_info."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.probes.heaps import chunk, live, memory, printed
from tests.probes.recording import Record

BEGIN = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#define NAMED __attribute__((noinline, noclone))
static void *volatile kept[1009];
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Compiles a program of these tests."""

    def build(text: str) -> str:
        (tmp_path / "program.c").write_text(BEGIN + text)
        path = str(tmp_path / "program")
        flags = ["-O1", "-fno-builtin", "-Wall", "-Werror"]
        subprocess.run(["gcc", *flags, "-o", path, tmp_path / "program.c"], check=True)
        return path

    return build


AGES = """
static void now(const char *name)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	dprintf(1, "%s %ld\\n", name, now.tv_sec * 1000000000L + now.tv_nsec);
}
static int volatile counts[] = {11, 22};
NAMED void leak(int count) { for (int i = 0; i < count; i++) kept[i] = malloc(101); }
NAMED void rise(void)
{
	for (int i = 0; i < 31; i++) kept[i] = malloc(5003);
	for (int i = 0; i < 29; i++) free(kept[i]);
}
int main(void)
{
	rise();
	for (int round = 0; round < 2; round++) {
		now(round ? "third" : "first");
		leak(counts[round]);
		now(round ? "fourth" : "second");
		usleep(200000);
	}
	_exit(0);
}
"""


def test_ages_and_the_peak(record: Record, program: Callable[[str], str], capfd: pytest.CaptureFixture[str]) -> None:
    """The mean age of blocks is that of the times between which the program made them; the peak is what
    the program had at once."""
    recording = record("heap", [program(AGES)])
    said = printed(capfd)
    rows = [row for row in recording.rows("heap_live") if (row["stack"] or "").endswith(";leak")]
    last = {row["stack_id"]: row for row in rows}.values()  # the C library's frames may be missing at first
    assert sum(row["live_count"] for row in last) == 33
    made = sum(row["live_count"] * (row["ktime_ns"] - row["mean_age_ns"]) for row in last) / 33
    earliest, latest = ((11 * said[a] + 22 * said[b]) / 33 for a, b in (("first", "third"), ("second", "fourth")))
    assert earliest - 1000 <= made <= latest + 1000, "kept in microseconds"
    assert memory(recording)["peak_bytes"] == 31 * 5003
    assert memory(recording)["live_bytes"] == 2 * 5003 + 33 * 101


# An allocator that is linked into the program, under names of its own, and gets its memory from no other.
LINKED = """
static char memory[1 << 20] __attribute__((aligned(64)));
static size_t used;
NAMED void *take(size_t size)
{
	void *block = memory + used;

	used += (size + 63) & ~63;
	return block;
}
"""
LINKED_FUNCTIONS = """
NAMED void *PREFIXmalloc(size_t size) { return take(size); }
NAMED void *PREFIXcalloc(size_t count, size_t size) { return memset(take(count * size), 0, count * size); }
NAMED void *PREFIXaligned_alloc(size_t alignment, size_t size) { return take(size); }
NAMED void *PREFIXrealloc(void *was, size_t size) { return memcpy(take(size), was, 7); }
NAMED int PREFIXposix_memalign(void **to, size_t alignment, size_t size) { *to = take(size); return 0; }
NAMED void PREFIXfree(void *block) { if (block) *(volatile char *)block = 1; }
NAMED void by_malloc(void) { for (int i = 0; i < 101; i++) kept[0] = PREFIXmalloc(307); }
NAMED void by_calloc(void) { for (int i = 0; i < 53; i++) kept[0] = PREFIXcalloc(7, 11); }
NAMED void by_aligned_alloc(void) { for (int i = 0; i < 13; i++) kept[0] = PREFIXaligned_alloc(64, 640); }
NAMED void by_realloc(void) { for (int i = 0; i < 17; i++) kept[0] = PREFIXrealloc(PREFIXmalloc(7), 211); }
NAMED void by_posix_memalign(void)
{
	for (int i = 0; i < 19; i++)
		PREFIXposix_memalign((void **)kept, 64, 1000);
}
NAMED void freed(void) { for (int i = 0; i < 103; i++) PREFIXfree(PREFIXmalloc(401)); }
int main(void)
{
	by_malloc(), by_calloc(), by_aligned_alloc(), by_realloc(), by_posix_memalign(), freed();
	_exit(0);
}
"""
LEAKS = {
    "by_malloc": (101, 101 * 307),
    "by_calloc": (53, 53 * 77),
    "by_aligned_alloc": (13, 13 * 640),
    "by_realloc": (17, 17 * 211),
    "by_posix_memalign": (19, 19 * 1000),
    "freed": (0, 0),
}


@pytest.mark.parametrize("prefix", ["je_", "_rjem_", "mi_", "tc_"])
def test_allocators_that_are_linked_in(record: Record, program: Callable[[str], str], prefix: str) -> None:
    """An allocator with a prefix before its functions' names, as Rust programs have, is recorded alike."""
    recording = record("heap", [program(LINKED + LINKED_FUNCTIONS.replace("PREFIX", prefix))])
    assert {name: live(recording).get(name) for name in LEAKS} == LEAKS
    whole = memory(recording)
    assert (whole["frees"], whole["unknown_frees"]) == (103 + 17, 0)


MALLOC_INFO = """
static char buffer[65536];
static void tell(void)
{
	malloc_info(0, stdout);
	fflush(stdout);
}
NAMED void leak(void)
{
	for (int i = 0; i < 211; i++) kept[i] = malloc(31 * i);
	for (int i = 0; i < 5; i++) kept[i] = malloc(1000003); /* large ones are mapped */
}
int main(void)
{
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	kept[1000] = malloc(1); /* glibc's first block is one of its own */
	tell();
	leak();
	tell();
	_exit(0);
}
"""


def test_blocks_are_those_of_malloc_info(
    record: Record, program: Callable[[str], str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a heap, as glibc lays them out, are what its own malloc_info says is in use, mapped ones apart."""
    recording = record("heap", [program(MALLOC_INFO)])
    before, after = (
        ElementTree.fromstring(text + "</malloc>") for text in capfd.readouterr().out.split("</malloc>")[:2]
    )
    assert live(recording)["leak"] == (216, sum(31 * i for i in range(211)) + 5 * 1000003)

    def grown(of: Callable[[ElementTree.Element], int]) -> int:
        return of(after) - of(before)

    def sized(kind: str, name: str = "size") -> Callable[[ElementTree.Element], int]:
        return lambda of: int(of.findall(kind)[-1].attrib[name])

    free = sum(grown(sized(f"total[@type='{kind}']")) for kind in ("fast", "rest"))
    assert grown(sized("system[@type='current']")) - free == sum(chunk(31 * i) for i in range(211))
    assert grown(sized("total[@type='mmap']", "count")) == 5
