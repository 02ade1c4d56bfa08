"""Running probes: from the start of a probe to batches of columns.

A `tracer` has `programs` in the kernel and parts with a common interface (`part`): event counts (`books`,
`kernel_books`, `account`), `events`, `summaries`, `states`, `functions` and `samples`. A `filter` tells the programs
which processes to watch; `lookup` asks the kernel for its ids of files, cgroups and processes. Functions in user space
are attached file by file (`attachments`, `uprobe`, `sites`, `retries`) by an `attacher`, in the files that `watched`
processes map; processes are `followed` until they end; `missed` says which calls may be missing, `slowdown` how much
the others slow the processes. `columns` converts rows to Arrow; `matching` selects the rows that meet a filter.
`command` holds a command until it is traced, `clock` converts the kernel's time to UTC, `doctor` checks every probe on
this host.
"""
