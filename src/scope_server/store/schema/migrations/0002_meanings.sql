-- The meanings of all tables, views and columns, which psql's \d+ shows. The tables and views of streams are made from
-- the catalogue, with their comments (`store/schema/views.py`).

COMMENT ON TABLE store.machines IS 'Every machine that has ever registered.';
COMMENT ON COLUMN store.machines.id IS 'key used by other tables';
COMMENT ON COLUMN store.machines.machine_id IS 'the machine''s id';
COMMENT ON COLUMN store.machines.installation IS 'installation id of the agent that registered last';
COMMENT ON COLUMN store.machines.hostname IS 'the machine''s name';
COMMENT ON COLUMN store.machines.kernel IS 'kernel release (uname -r)';
COMMENT ON COLUMN store.machines.architecture IS 'CPU architecture, such as x86_64';
COMMENT ON COLUMN store.machines.cpus IS 'number of CPUs';
COMMENT ON COLUMN store.machines.memory_bytes IS 'size of main memory (bytes)';
COMMENT ON COLUMN store.machines.agent_version IS 'version of the SCOPE agent';
COMMENT ON COLUMN store.machines.booted IS 'when the machine booted, by its own clock';
COMMENT ON COLUMN store.machines.clock_ahead_ns IS 'machine''s clock minus server''s clock at the last report (ns)';
COMMENT ON COLUMN store.machines.first_seen IS 'when the machine''s agent first registered, by the server''s clock';
COMMENT ON COLUMN store.machines.last_seen IS 'when the machine''s agent last reported, by the server''s clock';

COMMENT ON TABLE store.names IS 'Texts that rows refer to, such as names of programs.';
COMMENT ON COLUMN store.names.id IS 'from the sequence store.text_ids, which stacks use too';
COMMENT ON COLUMN store.names.digest IS 'BLAKE2b of the text in UTF-8, 16 bytes';
COMMENT ON COLUMN store.names.text IS 'text as recorded by the probe';

COMMENT ON TABLE store.frames IS 'Functions in call stacks.';
COMMENT ON COLUMN store.frames.id IS 'key that store.stacks.frames refers to';
COMMENT ON COLUMN store.frames.digest IS 'BLAKE2b of the text in UTF-8, 16 bytes';
COMMENT ON COLUMN store.frames.text IS 'function and module';

COMMENT ON TABLE store.stacks IS 'Call stacks that rows refer to; store.stack_text(id) gives the text.';
COMMENT ON COLUMN store.stacks.id IS 'from the sequence store.text_ids, which names use too';
COMMENT ON COLUMN store.stacks.digest IS 'BLAKE2b of the stack''s text, 16 bytes';
COMMENT ON COLUMN store.stacks.frames IS 'keys in store.frames, outermost first';

COMMENT ON TABLE store.processes IS 'Processes that occur in rows.';
COMMENT ON COLUMN store.processes.id IS 'key used by other tables';
COMMENT ON COLUMN store.processes.machine IS 'key in store.machines';
COMMENT ON COLUMN store.processes.pid IS 'process id as seen on the host; 0: for rows without a process';
COMMENT ON COLUMN store.processes.start_ns IS
    'when the process started, since boot (CLOCK_BOOTTIME, ns); with pid, it identifies a process';
COMMENT ON COLUMN store.processes.described_ns IS 'when the columns below were read, since boot (ns); 0: never';
COMMENT ON COLUMN store.processes.parent_pid IS 'pid of the parent process';
COMMENT ON COLUMN store.processes.exe IS 'path of the executable';
COMMENT ON COLUMN store.processes.cmdline IS 'command line arguments';
COMMENT ON COLUMN store.processes.cgroup IS 'path of the cgroup below the cgroup v2 root';
COMMENT ON COLUMN store.processes.container IS 'id of the container; null: not in a container';

COMMENT ON TABLE store.tasks IS 'Recording tasks, running and ended.';
COMMENT ON COLUMN store.tasks.id IS 'key used by other tables';
COMMENT ON COLUMN store.tasks.task_id IS 'the task''s id';
COMMENT ON COLUMN store.tasks.machine IS 'key in store.machines';
COMMENT ON COLUMN store.tasks.origin IS
    'who started the task; server: through the server; agent: on the machine itself';
COMMENT ON COLUMN store.tasks.probe IS 'name of the probe';
COMMENT ON COLUMN store.tasks.definition IS 'probe, target, options and duration: scope.v1.Definition as JSON';
COMMENT ON COLUMN store.tasks.wanted IS 'false after the task was stopped or its duration is over';
COMMENT ON COLUMN store.tasks.deadline IS 'when its duration is over; set at the first start; null: no duration';
COMMENT ON COLUMN store.tasks.reason IS 'why the last start failed';
COMMENT ON COLUMN store.tasks.next_try IS 'when the next start is tried';
COMMENT ON COLUMN store.tasks.created IS 'when the task was created';

COMMENT ON TABLE store.runs IS 'Executions of tasks. A restarted agent starts a new run.';
COMMENT ON COLUMN store.runs.id IS 'key used by other tables';
COMMENT ON COLUMN store.runs.run_id IS 'the run''s id';
COMMENT ON COLUMN store.runs.task IS 'key in store.tasks';
COMMENT ON COLUMN store.runs.installation IS 'installation id of the agent that ran the task';
COMMENT ON COLUMN store.runs.state IS 'starting, running, stopping, stopped or failed';
COMMENT ON COLUMN store.runs."end" IS
    'why the run ended: request, lease (duration over), failure, shutdown (agent stopped), killed (agent died)';
COMMENT ON COLUMN store.runs.error IS 'error message of a failed run';
COMMENT ON COLUMN store.runs.attach_point IS 'kernel hooks that the probe uses';
COMMENT ON COLUMN store.runs.started IS 'when recording began';
COMMENT ON COLUMN store.runs.ended IS 'when recording ended; null: still running';
COMMENT ON COLUMN store.runs.sent_bytes IS 'bytes that the agent has sent for the run';
COMMENT ON COLUMN store.runs.cost IS
    'cost of the BPF programs: share of one CPU, ns per execution, executions per second';
COMMENT ON COLUMN store.runs.notes IS 'which events may be missing, and why';

COMMENT ON TABLE store.accounts IS 'Event counts per run and stream: emitted, stored and lost.';
COMMENT ON COLUMN store.accounts.run IS 'key in store.runs';
COMMENT ON COLUMN store.accounts.stream IS 'name of the stream';
COMMENT ON COLUMN store.accounts.emitted IS 'events that passed the filter in the kernel, or rows of a summary';
COMMENT ON COLUMN store.accounts.stored IS 'stored events';
COMMENT ON COLUMN store.accounts.lost IS 'lost events, the sum of store.losses';
COMMENT ON COLUMN store.accounts.incomplete IS
    'events stored without a part, such as the stack, because memory for it was full';
COMMENT ON COLUMN store.accounts.told IS '{"PLACE/REASON": count}: losses reported by the agent';
COMMENT ON COLUMN store.accounts.told_time IS 'when the agent last reported its counts';
COMMENT ON COLUMN store.accounts.settled IS 'sequence numbers whose rows are stored or counted as lost';
COMMENT ON COLUMN store.accounts.last_sequence IS
    'last sequence number, reported at the run''s end; the counts are final when all numbers up to it are settled';

COMMENT ON TABLE store.losses IS 'Lost events by place, reason and minute of the event.';
COMMENT ON COLUMN store.losses.run IS 'key in store.runs';
COMMENT ON COLUMN store.losses.stream IS 'name of the stream';
COMMENT ON COLUMN store.losses.place IS 'where events were lost: ring, batch, agent, spool, or ingest (the server)';
COMMENT ON COLUMN store.losses.reason IS 'why events were lost, such as ring_full';
COMMENT ON COLUMN store.losses.minute IS 'minute of the lost events';
COMMENT ON COLUMN store.losses.first_time IS 'start of the time range with the lost events';
COMMENT ON COLUMN store.losses.last_time IS 'end of the time range with the lost events';
COMMENT ON COLUMN store.losses.count IS 'number of lost events';

COMMENT ON TABLE store.quarantine IS
    'Records that the database refused to store; see scope admin quarantine.';
COMMENT ON COLUMN store.quarantine.id IS 'id to give to scope admin quarantine';
COMMENT ON COLUMN store.quarantine.run IS 'key in store.runs';
COMMENT ON COLUMN store.quarantine.stream IS 'name of the stream; null: the record is not a batch';
COMMENT ON COLUMN store.quarantine.sequence IS 'sequence number of the batch';
COMMENT ON COLUMN store.quarantine.events IS 'events in the record, counted as lost at ingest/CODE';
COMMENT ON COLUMN store.quarantine.minute IS 'minute of the events';
COMMENT ON COLUMN store.quarantine.code IS 'reason of the loss, as in store.losses';
COMMENT ON COLUMN store.quarantine.reason IS 'why the record could not be stored';
COMMENT ON COLUMN store.quarantine.received IS 'when the record arrived';
COMMENT ON COLUMN store.quarantine.boot_to_utc_ns IS
    'added to the machine''s time since boot, it gives UTC by the server''s clock (ns)';
COMMENT ON COLUMN store.quarantine.bytes IS 'size of the record (bytes)';
COMMENT ON COLUMN store.quarantine.record IS
    'serialized scope.v1.Record; null: not kept, because the quarantine was full';

COMMENT ON TABLE store.batches IS
    'Run, stream and time range of every batch of rows. One partition per day; dropped together with the rows.';
COMMENT ON COLUMN store.batches.id IS 'key used by rows';
COMMENT ON COLUMN store.batches.run IS 'key in store.runs';
COMMENT ON COLUMN store.batches.sequence IS 'sequence number of the batch in the run''s stream, from 1';
COMMENT ON COLUMN store.batches.first_time IS 'time of the first row';
COMMENT ON COLUMN store.batches.last_time IS 'time of the last row';
COMMENT ON COLUMN store.batches.boot_to_utc_ns IS 'added to the rows'' time since boot, it gives their UTC time (ns)';
COMMENT ON COLUMN store.batches.event_count IS 'number of rows';
COMMENT ON COLUMN store.batches.machine IS 'key in store.machines';
COMMENT ON COLUMN store.batches.stream IS 'name of the stream';

COMMENT ON TABLE store.dropped IS 'Days of rows that were deleted to stay within the storage limits, per stream.';
COMMENT ON COLUMN store.dropped.id IS 'number in order of deletion';
COMMENT ON COLUMN store.dropped.day IS 'day in UTC';
COMMENT ON COLUMN store.dropped.stream IS
    'name of the stream; null: tables that belong to no stream, such as store.batches';
COMMENT ON COLUMN store.dropped.rows IS 'number of deleted rows, those in batches that ended on this day';
COMMENT ON COLUMN store.dropped.bytes IS 'disk space that was freed';
COMMENT ON COLUMN store.dropped.reason IS
    'age: older than keep-days; limit: storage above keep-bytes; floor: too little free disk space';
COMMENT ON COLUMN store.dropped.dropped_at IS 'when the deletion was done; null: in progress';

COMMENT ON TABLE store.sweep IS 'State of the sweep, which deletes texts and processes that nothing refers to.';
COMMENT ON COLUMN store.sweep.one IS 'the table has one row';
COMMENT ON COLUMN store.sweep.number IS
    'odd while a sweep runs; writers forget their cached keys when the number changes';
COMMENT ON COLUMN store.sweep.due IS 'number of sweeps still to run';

COMMENT ON TABLE store.doomed IS 'Rows that the sweep is about to delete.';
COMMENT ON COLUMN store.doomed.kind IS 'name of the table';
COMMENT ON COLUMN store.doomed.id IS 'key in that table';

COMMENT ON TABLE store.streams IS 'Definitions from which the tables and views of streams were made.';
COMMENT ON COLUMN store.streams.stream IS 'name of the stream';
COMMENT ON COLUMN store.streams.version IS 'version of the definition, from 1';
COMMENT ON COLUMN store.streams.probe IS 'name of the probe';
COMMENT ON COLUMN store.streams.fingerprint IS 'fingerprint of the Arrow schema';
COMMENT ON COLUMN store.streams.columns IS 'columns in the order of the view: [{name, type, sql, kind}]';
COMMENT ON COLUMN store.streams.shown IS 'digest of the view and comments as made; tells whether they are up to date';
COMMENT ON COLUMN store.streams.created IS 'when this version was added';

COMMENT ON TABLE store.pulse IS 'Updated at intervals to check that the database can write.';
COMMENT ON COLUMN store.pulse.one IS 'the table has one row';
COMMENT ON COLUMN store.pulse.beat IS 'time of the last update';

COMMENT ON TABLE store.schema_versions IS 'Schema migrations that were applied.';
COMMENT ON COLUMN store.schema_versions.version IS 'number of the migration file';
COMMENT ON COLUMN store.schema_versions.applied IS 'when the migration was applied';

COMMENT ON VIEW scope.machines IS 'Every machine that has ever registered.';
COMMENT ON COLUMN scope.machines.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.machines.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.machines.kernel IS 'kernel release (uname -r)';
COMMENT ON COLUMN scope.machines.architecture IS 'CPU architecture, such as x86_64';
COMMENT ON COLUMN scope.machines.cpus IS 'number of CPUs';
COMMENT ON COLUMN scope.machines.memory_bytes IS 'size of main memory (bytes)';
COMMENT ON COLUMN scope.machines.agent_version IS 'version of the SCOPE agent';
COMMENT ON COLUMN scope.machines.booted IS 'when the machine booted, by its own clock';
COMMENT ON COLUMN scope.machines.clock_ahead_ns IS 'machine''s clock minus server''s clock at the last report (ns)';
COMMENT ON COLUMN scope.machines.first_seen IS 'when the machine''s agent first registered, by the server''s clock';
COMMENT ON COLUMN scope.machines.last_seen IS 'when the machine''s agent last reported, by the server''s clock';

COMMENT ON VIEW scope.tasks IS 'Recording tasks, running and ended. Their executions: scope.runs.';
COMMENT ON COLUMN scope.tasks.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.tasks.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.tasks.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.tasks.origin IS
    'who started the task; server: through the server; agent: on the machine itself';
COMMENT ON COLUMN scope.tasks.probe IS 'name of the probe';
COMMENT ON COLUMN scope.tasks.definition IS 'probe, target, options and duration';
COMMENT ON COLUMN scope.tasks.wanted IS 'false after the task was stopped or its duration is over';
COMMENT ON COLUMN scope.tasks.deadline IS 'when its duration is over; set at the first start; null: no duration';
COMMENT ON COLUMN scope.tasks.reason IS 'why the last start failed';
COMMENT ON COLUMN scope.tasks.created IS 'when the task was created';

COMMENT ON VIEW scope.runs IS 'Executions of tasks. A restarted agent starts a new run. Event counts: scope.books.';
COMMENT ON COLUMN scope.runs.run_id IS 'the run''s id';
COMMENT ON COLUMN scope.runs.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.runs.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.runs.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.runs.probe IS 'name of the probe';
COMMENT ON COLUMN scope.runs.state IS 'starting, running, stopping, stopped or failed';
COMMENT ON COLUMN scope.runs."end" IS
    'why the run ended: request, lease (duration over), failure, shutdown (agent stopped), killed (agent died)';
COMMENT ON COLUMN scope.runs.error IS 'error message of a failed run';
COMMENT ON COLUMN scope.runs.attach_point IS 'kernel hooks that the probe uses';
COMMENT ON COLUMN scope.runs.started IS 'when recording began';
COMMENT ON COLUMN scope.runs.ended IS 'when recording ended; null: still running';
COMMENT ON COLUMN scope.runs.sent_bytes IS 'bytes that the agent has sent for the run';
COMMENT ON COLUMN scope.runs.cost IS
    'cost of the BPF programs: share of one CPU, ns per execution, executions per second';
COMMENT ON COLUMN scope.runs.notes IS 'which events may be missing, and why';

COMMENT ON VIEW scope.processes IS 'Processes that occur in rows. Values that could not be read are null.';
COMMENT ON COLUMN scope.processes.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.processes.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.processes.pid IS 'process id as seen on the host; 0: for rows without a process';
COMMENT ON COLUMN scope.processes.start_ns IS
    'when the process started, since boot (CLOCK_BOOTTIME, ns); with pid, it identifies a process';
COMMENT ON COLUMN scope.processes.parent_pid IS 'pid of the parent process';
COMMENT ON COLUMN scope.processes.exe IS 'path of the executable';
COMMENT ON COLUMN scope.processes.cmdline IS 'command line arguments';
COMMENT ON COLUMN scope.processes.cgroup IS 'path of the cgroup below the cgroup v2 root';
COMMENT ON COLUMN scope.processes.container IS 'id of the container; null: not in a container';

COMMENT ON VIEW scope.books IS 'Event counts per run and stream: emitted = stored + lost + under_way.';
COMMENT ON COLUMN scope.books.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.books.run_id IS 'the run''s id';
COMMENT ON COLUMN scope.books.stream IS 'name of the stream';
COMMENT ON COLUMN scope.books.emitted IS 'events that passed the filter in the kernel, or rows of a summary';
COMMENT ON COLUMN scope.books.stored IS 'stored events';
COMMENT ON COLUMN scope.books.lost IS 'lost events; details: scope.losses';
COMMENT ON COLUMN scope.books.under_way IS 'events that have not arrived yet';
COMMENT ON COLUMN scope.books.closed IS 'true: the run has ended and the counts are final';
COMMENT ON COLUMN scope.books.incomplete IS
    'events stored without a part, such as the stack, because memory for it was full';

COMMENT ON VIEW scope.losses IS 'Lost events by place, reason and minute.';
COMMENT ON COLUMN scope.losses.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.losses.run_id IS 'the run''s id';
COMMENT ON COLUMN scope.losses.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.losses.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.losses.stream IS 'name of the stream';
COMMENT ON COLUMN scope.losses.place IS 'where events were lost: ring, batch, agent, spool, or ingest (the server)';
COMMENT ON COLUMN scope.losses.reason IS 'why events were lost, such as ring_full';
COMMENT ON COLUMN scope.losses.first_time IS 'start of the time range with the lost events';
COMMENT ON COLUMN scope.losses.last_time IS 'end of the time range with the lost events';
COMMENT ON COLUMN scope.losses.count IS 'number of lost events';

COMMENT ON VIEW scope.dropped IS 'Days of rows that were deleted in the last year to stay within the storage limits.';
COMMENT ON COLUMN scope.dropped.stream IS
    'name of the stream; null: tables that belong to no stream, such as store.batches';
COMMENT ON COLUMN scope.dropped.day IS 'day in UTC';
COMMENT ON COLUMN scope.dropped.rows IS 'number of deleted rows, those in batches that ended on this day';
COMMENT ON COLUMN scope.dropped.bytes IS 'disk space that was freed';
COMMENT ON COLUMN scope.dropped.dropped_at IS 'when the deletion was done';
COMMENT ON COLUMN scope.dropped.reason IS
    'age: older than keep-days; limit: storage above keep-bytes; floor: too little free disk space';
