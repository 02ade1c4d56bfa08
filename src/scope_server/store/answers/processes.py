"""Which processes a machine had in a window, from the rows of streams that tell of them."""

from scope_server.store.answers.asked import Asked

MOST = 5000  # of each stream; of more, those that ran or lived longest

RAN = Asked("sched_process_summary", "sum(on_cpu_ns), sum(run_queue_ns)", ("pid", "start_ns", "comm"), top=MOST)
BEGAN = Asked("exec", "count", ("pid", "start_ns", "comm"), "ret = 0", top=MOST)
ENDED = Asked(
    "exit",
    "sum(lifetime_ns), sum(user_ns), sum(system_ns)",
    ("pid", "start_ns", "comm", "exit_code", "signal"),
    top=MOST,
)
