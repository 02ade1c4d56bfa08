"""A schedule: faults with their times and durations. The same seed gives the same schedule."""

import random
import time
from dataclasses import dataclass

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


def plan(world: World, seed: int) -> list[Planned]:
    """The faults of a seed. Each kind occurs at most once, since mending one fault would end another of its kind."""
    chance = random.Random(seed)
    made = chance.sample(FAULTS, chance.randint(2, MOST_FAULTS))
    planned = []
    for make in made:
        strikes_s = chance.uniform(0.5, LENGTH_S * 0.7)
        planned.append(Planned(make(world, chance), strikes_s, strikes_s + chance.uniform(0.2, 4.0)))
    return planned


def play(world: World, planned: list[Planned]) -> None:
    """Strikes and mends the faults at their times, then repairs everything."""
    began = time.monotonic()
    moments = [(one.strikes_s, one, True) for one in planned] + [(one.mended_s, one, False) for one in planned]
    for moment, one, strikes in sorted(moments, key=lambda entry: entry[0]):
        time.sleep(max(0.0, began + moment - time.monotonic()))
        world.say(f"{'strikes' if strikes else 'mends'} {type(one.fault).__name__}")
        (one.fault.strike if strikes else one.fault.mend)()
    time.sleep(max(0.0, began + LENGTH_S - time.monotonic()))
    world.proxy.heal()
    world.start_postgres()
    world.server.start()
    world.agent.start()
