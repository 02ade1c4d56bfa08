"""A probe that runs, from its start to batches of columns.

A `tracer` is `programs` in the kernel, told by a `filter` whom to watch (`lookup` asks the kernel what it calls them),
and parts of one contract (`part`): the kernel's `books` (`kernel_books`, `account`), `events`, `summaries`, `states`,
`functions` and `samples`. Functions are found by an `attacher`, in what `watched` processes map (`followed` to their
end), and attached to file by file (`attachments`, `uprobe`, `retries`; `missed` says what could not be seen). `columns`
makes Arrow of what the parts give, `matching` takes the rows that a filter wants. `command` holds a program until it is
traced, `clock` relates the kernel's time to UTC, `doctor` tries every probe.
"""
