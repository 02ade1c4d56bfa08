-- What every table, view and column means, for people who look at the database: psql's \d+ shows it. The rows' tables
-- and views are made from the catalogue, and so are their comments (`store/schema/views.py` and its like).

COMMENT ON TABLE store.machines IS 'Every machine that has ever registered.';
COMMENT ON COLUMN store.machines.id IS 'key that other tables refer to';
COMMENT ON COLUMN store.machines.machine_id IS 'the machine''s id';
COMMENT ON COLUMN store.machines.installation IS 'of the agent that registered last';
COMMENT ON COLUMN store.machines.hostname IS 'the machine''s name';
COMMENT ON COLUMN store.machines.kernel IS 'release of its kernel';
COMMENT ON COLUMN store.machines.architecture IS 'such as x86_64';
COMMENT ON COLUMN store.machines.cpus IS 'how many CPUs it has';
COMMENT ON COLUMN store.machines.memory_bytes IS 'its main memory';
COMMENT ON COLUMN store.machines.agent_version IS 'SCOPE''s version there';
COMMENT ON COLUMN store.machines.booted IS 'when the machine was booted, by its own clock';
COMMENT ON COLUMN store.machines.clock_ahead_ns IS 'its clock less the server''s (ns), when it reported last';
COMMENT ON COLUMN store.machines.first_seen IS 'when its agent registered first, by the server''s clock';
COMMENT ON COLUMN store.machines.last_seen IS 'when its agent was heard of last, by the server''s clock';

COMMENT ON TABLE store.names IS 'Texts that rows refer to, such as names of programs.';
COMMENT ON COLUMN store.names.id IS 'drawn from store.text_ids, like that of a stack';
COMMENT ON COLUMN store.names.digest IS 'BLAKE2b, 16 bytes, of the text in UTF-8';
COMMENT ON COLUMN store.names.text IS 'as the probe told it';

COMMENT ON TABLE store.frames IS 'Functions that stacks are made of.';
COMMENT ON COLUMN store.frames.id IS 'key that store.stacks.frames refers to';
COMMENT ON COLUMN store.frames.digest IS 'BLAKE2b, 16 bytes, of the text in UTF-8';
COMMENT ON COLUMN store.frames.text IS 'function and module';

COMMENT ON TABLE store.stacks IS 'Call stacks that rows refer to; store.stack_text(id) is their text.';
COMMENT ON COLUMN store.stacks.id IS 'drawn from store.text_ids, like that of a name';
COMMENT ON COLUMN store.stacks.digest IS 'BLAKE2b, 16 bytes, of the stack''s text';
COMMENT ON COLUMN store.stacks.frames IS 'keys in store.frames, outermost first';

COMMENT ON TABLE store.processes IS 'Processes that rows are about.';
COMMENT ON COLUMN store.processes.id IS 'key that other tables refer to';
COMMENT ON COLUMN store.processes.machine IS 'key in store.machines';
COMMENT ON COLUMN store.processes.pid IS 'as seen on the host; 0: of no process';
COMMENT ON COLUMN store.processes.start_ns IS
    'when it started, since boot (CLOCK_BOOTTIME, ns); tells a reused pid apart';
COMMENT ON COLUMN store.processes.described_ns IS 'when the rest was read, since boot (ns); 0: never';
COMMENT ON COLUMN store.processes.parent_pid IS 'pid of its parent';
COMMENT ON COLUMN store.processes.exe IS 'path of its program';
COMMENT ON COLUMN store.processes.cmdline IS 'its arguments';
COMMENT ON COLUMN store.processes.cgroup IS 'path below the cgroup v2 root';
COMMENT ON COLUMN store.processes.container IS 'id of its container; null: in none';

COMMENT ON TABLE store.tasks IS 'What is, or was, to be recorded.';
COMMENT ON COLUMN store.tasks.id IS 'key that other tables refer to';
COMMENT ON COLUMN store.tasks.task_id IS 'the task''s id';
COMMENT ON COLUMN store.tasks.machine IS 'key in store.machines';
COMMENT ON COLUMN store.tasks.origin IS 'server: asked for here; agent: started on the machine';
COMMENT ON COLUMN store.tasks.probe IS 'name of the probe that records';
COMMENT ON COLUMN store.tasks.definition IS 'scope.v1.Definition as JSON';
COMMENT ON COLUMN store.tasks.wanted IS 'until somebody stops it or its time is over';
COMMENT ON COLUMN store.tasks.deadline IS 'when its time is over; set by the first start of a task with a duration';
COMMENT ON COLUMN store.tasks.reason IS 'why the last start failed';
COMMENT ON COLUMN store.tasks.next_try IS 'when it is started again';
COMMENT ON COLUMN store.tasks.created IS 'when it was asked for';

COMMENT ON TABLE store.runs IS 'One execution of a task in one life of its agent.';
COMMENT ON COLUMN store.runs.id IS 'key that other tables refer to';
COMMENT ON COLUMN store.runs.run_id IS 'the run''s id';
COMMENT ON COLUMN store.runs.task IS 'key in store.tasks';
COMMENT ON COLUMN store.runs.installation IS 'of the agent that ran it';
COMMENT ON COLUMN store.runs.state IS 'starting, running, stopping, stopped or failed';
COMMENT ON COLUMN store.runs."end" IS
    'why it ended: request, lease (its time was over), failure, shutdown (of the agent), killed (the agent was)';
COMMENT ON COLUMN store.runs.error IS 'what failed';
COMMENT ON COLUMN store.runs.attach_point IS 'the way to attach that the probe took';
COMMENT ON COLUMN store.runs.started IS 'when it began to record';
COMMENT ON COLUMN store.runs.ended IS 'when it ended; null: it has not';
COMMENT ON COLUMN store.runs.sent_bytes IS 'what its agent has sent of it';
COMMENT ON COLUMN store.runs.cost IS 'of its BPF programs: share of a CPU, ns a run, runs a second';
COMMENT ON COLUMN store.runs.notes IS 'what it may not have seen';

COMMENT ON TABLE store.accounts IS 'The books of a run''s stream.';
COMMENT ON COLUMN store.accounts.run IS 'key in store.runs';
COMMENT ON COLUMN store.accounts.stream IS 'name of the stream';
COMMENT ON COLUMN store.accounts.emitted IS 'events that passed the filter in the kernel, or rows that a summary made';
COMMENT ON COLUMN store.accounts.stored IS 'events whose rows were stored';
COMMENT ON COLUMN store.accounts.lost IS 'all of store.losses';
COMMENT ON COLUMN store.accounts.incomplete IS 'stored without a part, such as a stack, for which there was no room';
COMMENT ON COLUMN store.accounts.told IS '{"PLACE/REASON": count}: losses that the agent told';
COMMENT ON COLUMN store.accounts.told_time IS 'when the agent told its latest account';
COMMENT ON COLUMN store.accounts.settled IS 'sequences whose rows are stored or booked as lost';
COMMENT ON COLUMN store.accounts.last_sequence IS
    'told at the run''s end; the books are closed when all up to it are settled';

COMMENT ON TABLE store.losses IS 'Lost events by place, reason and the minute in which they were.';
COMMENT ON COLUMN store.losses.run IS 'key in store.runs';
COMMENT ON COLUMN store.losses.stream IS 'name of the stream';
COMMENT ON COLUMN store.losses.place IS 'ring, batch, agent, spool, or ingest, which is the server';
COMMENT ON COLUMN store.losses.reason IS 'why, such as ring_full';
COMMENT ON COLUMN store.losses.minute IS 'in which they were lost';
COMMENT ON COLUMN store.losses.first_time IS 'they were lost between this time and last_time';
COMMENT ON COLUMN store.losses.last_time IS 'they were lost between first_time and this time';
COMMENT ON COLUMN store.losses.count IS 'lost events';

COMMENT ON TABLE store.quarantine IS
    'Records that could not be stored though the database was there; see scope admin quarantine.';
COMMENT ON COLUMN store.quarantine.id IS 'for scope admin quarantine';
COMMENT ON COLUMN store.quarantine.run IS 'key in store.runs';
COMMENT ON COLUMN store.quarantine.stream IS 'of a batch; null: the record is none';
COMMENT ON COLUMN store.quarantine.sequence IS 'of the batch';
COMMENT ON COLUMN store.quarantine.events IS 'booked as lost at ingest/CODE';
COMMENT ON COLUMN store.quarantine.minute IS 'in which the events were';
COMMENT ON COLUMN store.quarantine.code IS 'reason of the loss';
COMMENT ON COLUMN store.quarantine.reason IS 'why it could not be stored';
COMMENT ON COLUMN store.quarantine.received IS 'when it came';
COMMENT ON COLUMN store.quarantine.boot_to_utc_ns IS 'of the machine, by the server''s clock';
COMMENT ON COLUMN store.quarantine.bytes IS 'size of the record';
COMMENT ON COLUMN store.quarantine.record IS 'a serialized scope.v1.Record; null: there was no room for it';

COMMENT ON TABLE store.batches IS
    'The catalogue of batches: when and whose the rows of each are. Goes with the rows, a partition a day.';
COMMENT ON COLUMN store.batches.id IS 'which rows have as their batch';
COMMENT ON COLUMN store.batches.run IS 'key in store.runs';
COMMENT ON COLUMN store.batches.sequence IS 'its number in the run''s stream, from 1';
COMMENT ON COLUMN store.batches.first_time IS 'of its rows';
COMMENT ON COLUMN store.batches.last_time IS 'of its rows';
COMMENT ON COLUMN store.batches.boot_to_utc_ns IS 'as used for the rows'' times';
COMMENT ON COLUMN store.batches.event_count IS 'how many rows it has';
COMMENT ON COLUMN store.batches.machine IS 'key in store.machines';
COMMENT ON COLUMN store.batches.stream IS 'name of the stream';

COMMENT ON TABLE store.dropped IS 'Days that were dropped to keep within the limits, a row a stream.';
COMMENT ON COLUMN store.dropped.id IS 'in the order of their going';
COMMENT ON COLUMN store.dropped.day IS 'in UTC';
COMMENT ON COLUMN store.dropped.stream IS 'null: all that is no stream''s, such as the catalogue of batches';
COMMENT ON COLUMN store.dropped.rows IS 'of the batches that ended on that day';
COMMENT ON COLUMN store.dropped.bytes IS 'what they took on the disk';
COMMENT ON COLUMN store.dropped.reason IS
    'age: older than is kept; limit: more bytes than are kept; floor: too little was free on the disk';
COMMENT ON COLUMN store.dropped.dropped_at IS 'null: it is being dropped';

COMMENT ON TABLE store.sweep IS 'Whether what nothing refers to is being taken away.';
COMMENT ON COLUMN store.sweep.one IS 'there is one row';
COMMENT ON COLUMN store.sweep.number IS 'odd while a sweep runs; keys that a writer remembers hold until it changes';
COMMENT ON COLUMN store.sweep.due IS 'sweeps that are left to be done';

COMMENT ON TABLE store.doomed IS 'What the sweep is about to take away.';
COMMENT ON COLUMN store.doomed.kind IS 'table of store';
COMMENT ON COLUMN store.doomed.id IS 'key in that table';

COMMENT ON TABLE store.streams IS 'What the tables and views of streams were made from.';
COMMENT ON COLUMN store.streams.stream IS 'name of the stream';
COMMENT ON COLUMN store.streams.version IS 'from 1, one more with each change of the stream';
COMMENT ON COLUMN store.streams.probe IS 'whose stream it is';
COMMENT ON COLUMN store.streams.fingerprint IS 'of the Arrow schema';
COMMENT ON COLUMN store.streams.columns IS '[{name, type, sql, kind}], in the order of the view';
COMMENT ON COLUMN store.streams.shown IS 'tells whether view and comments are up to date';
COMMENT ON COLUMN store.streams.created IS 'when this version came';

COMMENT ON TABLE store.pulse IS 'Written now and then to know that writing works.';
COMMENT ON COLUMN store.pulse.one IS 'there is one row';
COMMENT ON COLUMN store.pulse.beat IS 'when it was written last';

COMMENT ON TABLE store.schema_versions IS 'Which files of the schema were applied.';
COMMENT ON COLUMN store.schema_versions.version IS 'number of the file';
COMMENT ON COLUMN store.schema_versions.applied IS 'when';

COMMENT ON VIEW scope.machines IS 'Every machine that has ever registered.';
COMMENT ON COLUMN scope.machines.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.machines.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.machines.kernel IS 'release of its kernel';
COMMENT ON COLUMN scope.machines.architecture IS 'such as x86_64';
COMMENT ON COLUMN scope.machines.cpus IS 'how many CPUs it has';
COMMENT ON COLUMN scope.machines.memory_bytes IS 'its main memory';
COMMENT ON COLUMN scope.machines.agent_version IS 'SCOPE''s version there';
COMMENT ON COLUMN scope.machines.booted IS 'when the machine was booted, by its own clock';
COMMENT ON COLUMN scope.machines.clock_ahead_ns IS 'its clock less the server''s (ns), when it reported last';
COMMENT ON COLUMN scope.machines.first_seen IS 'when its agent registered first, by the server''s clock';
COMMENT ON COLUMN scope.machines.last_seen IS 'when its agent was heard of last, by the server''s clock';

COMMENT ON VIEW scope.tasks IS 'What is, or was, to be recorded. What became of it: scope.runs.';
COMMENT ON COLUMN scope.tasks.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.tasks.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.tasks.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.tasks.origin IS 'server: asked for here; agent: started on the machine';
COMMENT ON COLUMN scope.tasks.probe IS 'name of the probe that records';
COMMENT ON COLUMN scope.tasks.definition IS 'probe, target, options and duration';
COMMENT ON COLUMN scope.tasks.wanted IS 'until somebody stops it or its time is over';
COMMENT ON COLUMN scope.tasks.deadline IS 'when its time is over; set by the first start of a task with a duration';
COMMENT ON COLUMN scope.tasks.reason IS 'why the last start failed';
COMMENT ON COLUMN scope.tasks.created IS 'when it was asked for';

COMMENT ON VIEW scope.runs IS 'One execution of a task in one life of its agent. Its books: scope.books.';
COMMENT ON COLUMN scope.runs.run_id IS 'the run''s id';
COMMENT ON COLUMN scope.runs.task_id IS 'the task that it executes';
COMMENT ON COLUMN scope.runs.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.runs.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.runs.probe IS 'name of the probe that records';
COMMENT ON COLUMN scope.runs.state IS 'starting, running, stopping, stopped or failed';
COMMENT ON COLUMN scope.runs."end" IS
    'why it ended: request, lease (its time was over), failure, shutdown (of the agent), killed (the agent was)';
COMMENT ON COLUMN scope.runs.error IS 'what failed';
COMMENT ON COLUMN scope.runs.attach_point IS 'the way to attach that the probe took';
COMMENT ON COLUMN scope.runs.started IS 'when it began to record';
COMMENT ON COLUMN scope.runs.ended IS 'when it ended; null: it has not';
COMMENT ON COLUMN scope.runs.sent_bytes IS 'what its agent has sent of it';
COMMENT ON COLUMN scope.runs.cost IS 'of its BPF programs: share of a CPU, ns a run, runs a second';
COMMENT ON COLUMN scope.runs.notes IS 'what it may not have seen';

COMMENT ON VIEW scope.processes IS 'Processes that rows are about. What could not be read of one is null.';
COMMENT ON COLUMN scope.processes.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.processes.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.processes.pid IS 'as seen on the host; 0: of no process';
COMMENT ON COLUMN scope.processes.start_ns IS
    'when it started, since boot (CLOCK_BOOTTIME, ns); tells a reused pid apart';
COMMENT ON COLUMN scope.processes.parent_pid IS 'pid of its parent';
COMMENT ON COLUMN scope.processes.exe IS 'path of its program';
COMMENT ON COLUMN scope.processes.cmdline IS 'its arguments';
COMMENT ON COLUMN scope.processes.cgroup IS 'path below the cgroup v2 root';
COMMENT ON COLUMN scope.processes.container IS 'id of its container; null: in none';

COMMENT ON VIEW scope.books IS 'Per run and stream: emitted = stored + lost + under_way.';
COMMENT ON COLUMN scope.books.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.books.run_id IS 'the run''s id';
COMMENT ON COLUMN scope.books.stream IS 'name of the stream';
COMMENT ON COLUMN scope.books.emitted IS 'events that passed the filter in the kernel, or rows that a summary made';
COMMENT ON COLUMN scope.books.stored IS 'events whose rows were stored';
COMMENT ON COLUMN scope.books.lost IS 'lost events; where, why and when: scope.losses';
COMMENT ON COLUMN scope.books.under_way IS 'not arrived yet';
COMMENT ON COLUMN scope.books.closed IS 'the run has ended and nothing more can come';
COMMENT ON COLUMN scope.books.incomplete IS 'stored without a part, such as a stack, for which there was no room';

COMMENT ON VIEW scope.losses IS 'Lost events by place, reason and minute.';
COMMENT ON COLUMN scope.losses.task_id IS 'the task''s id';
COMMENT ON COLUMN scope.losses.run_id IS 'the run''s id';
COMMENT ON COLUMN scope.losses.machine_id IS 'the machine''s id';
COMMENT ON COLUMN scope.losses.hostname IS 'the machine''s name';
COMMENT ON COLUMN scope.losses.stream IS 'name of the stream';
COMMENT ON COLUMN scope.losses.place IS 'ring, batch, agent, spool, or ingest, which is the server';
COMMENT ON COLUMN scope.losses.reason IS 'why, such as ring_full';
COMMENT ON COLUMN scope.losses.first_time IS 'they were lost between this time and last_time';
COMMENT ON COLUMN scope.losses.last_time IS 'they were lost between first_time and this time';
COMMENT ON COLUMN scope.losses.count IS 'lost events';

COMMENT ON VIEW scope.dropped IS 'Days of rows that were dropped to keep within the limits, for a year.';
COMMENT ON COLUMN scope.dropped.stream IS 'null: the catalogue of batches and other tables that are no stream''s';
COMMENT ON COLUMN scope.dropped.day IS 'in UTC';
COMMENT ON COLUMN scope.dropped.rows IS 'of the batches that ended on that day';
COMMENT ON COLUMN scope.dropped.bytes IS 'what they took on the disk';
COMMENT ON COLUMN scope.dropped.dropped_at IS 'when they were gone';
COMMENT ON COLUMN scope.dropped.reason IS
    'age: older than is kept; limit: more bytes than are kept; floor: too little was free on the disk';
