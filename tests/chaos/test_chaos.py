"""Seeded schedules of faults over a real stack under known loads; afterwards every event is accounted for.

Every third schedule is of the deployed form, with several servers, where control has to be back soon after each fault.
The environment's SLOWNESS, 4 by default, is by how much the machine may be slower than one that does nothing else.

`make chaos SCHEDULES=500` plays 500 schedules; `make chaos SEED=N` repeats schedule N. A failure prints its schedule.
"""

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos import account
from tests.chaos.control import MOST_S, Control
from tests.chaos.deployed import Deployed
from tests.chaos.schedule import plan, play
from tests.chaos.world import World
from tests.left_behind import left_behind, pins_of, unheld
from tests.probes.cuda_programs import StandIn

SCHEDULES = int(os.environ.get("SCHEDULES", "25"))
SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else range(1, SCHEDULES + 1)
HERE = Path(__file__).parent
MOST_MB = 500.0  # a server whose backlog is full holds 256 MiB of records, and has 190 MB without any
DEPLOYED_EVERY = 3


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the compiled loads and the library that shifts clocks."""
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run(["gcc", "-O1", "-o", folder / "load", HERE / "load.c"], check=True)
    runtime = StandIn(folder).folder / "libcudart.so.13"
    frames = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
    linked: list[str | Path] = [f"-Wl,--no-as-needed,-rpath={folder}", runtime, folder / "libcuda.so.1"]
    subprocess.run(["gcc", *frames, "-o", folder / "allocations", HERE / "allocations.c", *linked], check=True)
    flags = ["-O1", "-fPIC", "-shared"]
    subprocess.run(["gcc", *flags, "-o", folder / "clock.so", HERE / "clock.c"], check=True)
    return folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, since it contains a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="chaos") as made:
        yield Path(made)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_is_accounted_for(
    seed: int, programs: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every run, emitted = stored + lost + left out, and no row is duplicated or wrong. Nothing stays attached.

    If no fault ended the agent, every call, allocation and exec of the loads was emitted.
    """
    before = unheld()
    deployed = seed % DEPLOYED_EVERY == 0
    chance = random.Random(seed)
    with Deployed(folder, programs, chance) if deployed else World(folder, programs) as world:
        try:
            _play(world, seed, capsys)
            installation = (folder / "a" / "installation-id").read_text().strip()
        except BaseException as error:
            error.add_note(f"seed {seed}:\n" + "\n".join(world.log))
            for part in world.parts:
                error.add_note(f"{part.name}: {part.said()}")
            raise
    assert not account.processes_of(folder)
    assert left_behind(before) == set()
    assert not pins_of(installation)


def _play(world: World, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    idle = account.open_files(world)
    loads = [world.start_load("load", 1000, 20, 50), world.start_load("load", 20_000, 300, 10)]
    stacks = world.start_load("allocations", 2000, 7)
    filtered = world.start_load("load", 2000, 20, 10**9)
    tasks = [world.start_task("syscalls", load.pid, names="lseek") for load in loads]
    tasks.append(world.start_task("syscalls", filtered.pid, account.TAKEN, names="lseek"))
    tasks.append(world.start_task("cuda", stacks.pid))
    tasks += [world.start_task("process", load.pid) for load in loads]
    tasks.append(world.start_task("sched", loads[0].pid, mode="summary", interval_ms=200))
    planned = plan(world, seed)
    for load in world.loads:
        load.go()
    if isinstance(world, Deployed):
        with Control(world.asker(MOST_S), filtered.pid) as control:
            changes = play(world, planned)
            for load in (*loads, stacks):  # they leave no CPU idle, so that control takes seconds
                load.end()
        world.eventually(lambda: _only(world, tasks), "the tasks whose start was not answered stop")
        kinds = ", ".join(type(one.fault).__name__ for one in planned)
        with capsys.disabled():
            print(f"\nseed {seed}: {kinds}: control answered within {control.away_s(changes):.1f} s")
        assert control.away_s(changes) < MOST_S
    else:
        play(world, planned)
    for load in world.loads:
        load.end()
    for part in world.parts:
        assert not part.ended_badly, part.ended_badly
    for task in tasks:
        world.eventually(lambda task=task: _stopped(world, task), "a task stops")
    # A task of an agent that is away is called stopped by what is known: the agent may have begun another run of it.
    world.eventually(lambda: account.all_sent(world), "the agent has sent all records")
    world.eventually(lambda: account.all_closed(world), "the books of every run close")
    lived_on = not any(one.fault.ends_agent for one in planned)
    account.check_books(world)
    account.check_learnt(world)
    for load in loads:
        account.check_calls(world, load, lived_on)
        account.check_programs(world, load, lived_on)
    account.check_calls(world, filtered, lived_on)
    account.check_left_out(world, filtered, lived_on)
    account.check_allocations(world, stacks, lived_on)
    assert not account.left_open(world, idle)
    for part in world.parts:
        assert account.resident_mb(part.pid) < MOST_MB, part.name
        part.terminate()


def _only(world: World, tasks: list[str]) -> bool:
    """Stops all other tasks; whether there were none."""
    others = {one["task_id"] for one in world.client.get("tasks", state="active")["tasks"]} - set(tasks)
    return all(_stopped(world, task) for task in others)


def _stopped(world: World, task: str) -> bool:
    return world.client.post("tasks", task, "stop")["state"] in ("stopped", "failed")
