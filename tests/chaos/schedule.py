"""A schedule: faults with their times and durations. The same seed gives the same schedule."""

import random
import time
from dataclasses import dataclass

from tests.chaos.deployed import Deployed
from tests.chaos.deployed_faults import OTHERS, OWN
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.world import World

LENGTH_S = 6.0
MOST_FAULTS = 5


@dataclass(frozen=True)
class Planned:
    """A fault, when it strikes and when it is mended, in seconds from the start of the schedule."""

    fault: Fault
    strikes_s: float
    mended_s: float


def chosen(world: World, chance: random.Random) -> list[Fault]:
    """Some faults of this form of the stack. Each kind occurs at most once, since mending one would end another."""
    if isinstance(world, Deployed):
        makes = chance.sample(OWN, chance.randint(1, MOST_FAULTS - 2)) + chance.sample(OTHERS, chance.randint(0, 2))
        return [make(world, chance) for make in makes]
    return [make(world, chance) for make in chance.sample(FAULTS, chance.randint(2, MOST_FAULTS))]


def plan(world: World, seed: int) -> list[Planned]:
    """The faults of a seed."""
    chance = random.Random(seed)
    planned = []
    for fault in chosen(world, chance):
        strikes_s = chance.uniform(0.5, LENGTH_S * 0.7)
        planned.append(Planned(fault, strikes_s, strikes_s + chance.uniform(0.2, 4.0)))
    return planned


def play(world: World, planned: list[Planned]) -> list[float]:
    """Strikes and mends the faults at their times, then repairs everything; returns when something changed."""
    began = time.monotonic()
    changes = []
    moments = [(one.strikes_s, one, True) for one in planned] + [(one.mended_s, one, False) for one in planned]
    for moment, one, strikes in sorted(moments, key=lambda entry: entry[0]):
        time.sleep(max(0.0, began + moment - time.monotonic()))
        world.say(f"{'strikes' if strikes else 'mends'} {type(one.fault).__name__}")
        (one.fault.strike if strikes else one.fault.mend)()
        changes.append(time.monotonic())
    time.sleep(max(0.0, began + LENGTH_S - time.monotonic()))
    world.repair()
    return [*changes, time.monotonic()]
