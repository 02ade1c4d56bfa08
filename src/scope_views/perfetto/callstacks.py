"""Call stacks of samples, as Perfetto knows them: each stack and frame is described once, before what refers to it."""

from collections.abc import Iterable

from scope_views.perfetto.tracks import ENTRY_BYTES, Tracks

_MAPPING = 1  # frames have names and no places in files; the importer wants a mapping of each all the same


class Callstacks:
    """Numbers the stacks of a trace. New ones are described to `tracks`."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._stacks: dict[str, int] = {}
        self._frames: dict[str, int] = {}

    def forget(self) -> None:
        """From now on, all are described anew."""
        self._stacks.clear()
        self._frames.clear()

    def numbers(self, stacks: Iterable[str]) -> list[int]:
        """The numbers of stacks whose frames are separated by semicolons, outermost first."""
        wanted = list(stacks)
        fresh = [stack for stack in dict.fromkeys(wanted) if stack not in self._stacks]
        if fresh:
            interned = self._tracks.interned()
            if not self._stacks:
                interned.mappings.add(iid=_MAPPING)
            for stack in fresh:
                self._tracks.known_bytes += len(stack) + ENTRY_BYTES
                frames = stack.split(";")
                for name in frames:
                    if name not in self._frames:
                        number = self._frames[name] = len(self._frames) + 1
                        interned.function_names.add(iid=number, str=name.encode())
                        # The importer tells frames apart by their address, of which names have none.
                        interned.frames.add(iid=number, function_name_id=number, mapping_id=_MAPPING, rel_pc=number)
                number = self._stacks[stack] = len(self._stacks) + 1
                interned.callstacks.add(iid=number, frame_ids=[self._frames[name] for name in frames])
        return [self._stacks[stack] for stack in wanted]
