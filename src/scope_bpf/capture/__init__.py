"""A probe that runs, from its start to batches of columns.

`running` starts one: a `tracer` of programs, or `sampled`. The tracer loads, sets the `filter`, has the `attacher` find
functions (`attachments`, `uprobe`, `retries`), drains events and reads summaries (`summary`) and states (`gauge`);
`kernel_books` and `account`
are its books. `columns` makes Arrow of what it gives. `command` holds a program until it is traced, `clock` relates the
kernel's time to UTC, `doctor` tries every probe.
"""
