"""Takes the batches of tracers and feeds a sink, until it is stopped and everything is taken."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext

from scope_bpf.capture.batch import Batch
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.memberships import of_machine
from scope_bpf.capture.tracer import Tracer
from scope_catalogue.stream import OF_PROCESS, DescribedStream
from scope_cli.trace.sink import Sinks
from scope_views.choice import Choice

POLL_MS = 100


class Recording:
    """A thread per tracer; the sink takes one batch at a time.

    Args:
        streams: those of the tracers whose rows leave them.

    Attributes:
        error: why a thread ended early; the others go on until `stop`.
    """

    def __init__(
        self, tracers: Sequence[Tracer], streams: Sequence[DescribedStream], sink: Sinks, choice: Choice
    ) -> None:
        self._streams = {stream.name: stream for stream in streams}
        self._tracers, self._sink, self._choice = tracers, sink, choice
        self._memberships = of_machine()
        self._watch = self._memberships.watch if any(map(self._shows_processes, streams)) else nullcontext()
        self._lock = threading.Lock()  # around the sink and the counts
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(tracer,), name=f"recording {tracer.probe.name}")
            for tracer in tracers
        ]
        self._rows = self._chosen = 0
        self.error: BaseException | None = None

    @property
    def rows(self) -> int:
        """How many rows were recorded."""
        return self._rows

    @property
    def chosen(self) -> int:
        """How many of them the sink got."""
        return self._chosen

    def _shows_processes(self, stream: DescribedStream) -> bool:
        """Whether the containers of processes are filtered by, or shown."""
        made = self._choice.columns(stream, self._sink.columns(stream))
        return made is None or bool({*made, *self._choice.of_process(stream.name)} & OF_PROCESS.keys())

    def start(self) -> None:
        """Begins."""
        self._watch.__enter__()
        for thread in self._threads:
            thread.start()

    def _run(self, tracer: Tracer) -> None:
        try:
            while not self._stopped.is_set():
                self._write(tracer.poll(POLL_MS))
            self._write(tracer.finish())
        except BaseException as error:
            self.error = self.error or error

    def _write(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            stream = self._streams[batch.stream.name]
            columns = self._sink.columns(stream)
            made = self._choice.columns(stream, columns)
            arrow = to_arrow(batch, made)
            names = {*(stream.by_name if made is None else made), *self._choice.of_process(stream.name)}
            chosen = self._choice.of(stream.name, self._memberships.joined(arrow, names))
            if made is None:
                chosen = chosen.select(list(stream.by_name))
            with self._lock:
                self._rows += batch.count
                self._chosen += chosen.num_rows if arrow.num_columns else batch.count
                self._sink.write(stream, chosen)
        with self._lock:
            self._sink.flush()

    def stop(self) -> None:
        """Ends the recording and waits for what is left."""
        self._stopped.set()
        for tracer in self._tracers:
            tracer.hurry()
        for thread in self._threads:
            thread.join()
        self._watch.__exit__(None, None, None)
