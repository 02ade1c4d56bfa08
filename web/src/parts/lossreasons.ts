import type { I18n, MessageDescriptor } from "@lingui/core";
import { msg } from "@lingui/core/macro";

interface Told {
  cause: MessageDescriptor;
  /** What helps; none: nothing does, or nothing is wrong. */
  remedy?: MessageDescriptor;
}

/** What a place and a reason of the books mean; docs/dataflow.md has them all. */
const TOLD: Record<string, Told> = {
  "ring/ring_full": {
    cause: msg`the agent was slower than the events, and the kernel's buffer was full`,
    remedy: msg`Give the task a larger buffer (-o ring_bytes=N), a filter, or the mode summary.`,
  },
  "ring/map_full": {
    cause: msg`a table in the kernel was full`,
    remedy: msg`Watch fewer processes; the probe's page tells its limits.`,
  },
  "ring/no_state": {
    cause: msg`the kernel had no memory to follow a thread, socket or flow`,
    remedy: msg`Watch fewer processes.`,
  },
  "ring/follow": {
    cause: msg`a child process could not be followed: too many are watched`,
    remedy: msg`Watch fewer processes.`,
  },
  "ring/missed_run": {
    cause: msg`the kernel left out a run of the probe's program`,
    remedy: msg`Watch less that happens inside of what is watched.`,
  },
  "ring/left": {
    cause: msg`a call never returned: an exception, longjmp() or exec left it`,
  },
  "ring/too_deep": {
    cause: msg`a call was nested deeper than calls are followed`,
  },
  "ring/unkept": {
    cause: msg`the agent had no memory for an event, or the event was damaged`,
    remedy: msg`Give the agent more memory.`,
  },
  "ring/file_unopened": {
    cause: msg`a file could not be opened to attach to it`,
    remedy: msg`Raise the agent's limit of open files (ulimit -n).`,
  },
  "ring/file_refused": {
    cause: msg`the kernel refused to attach to a file`,
    remedy: msg`The agent's log names the file.`,
  },
  "batch/unreadable": {
    cause: msg`the agent could not read an event`,
    remedy: msg`The agent's log tells why; it may be a fault of SCOPE.`,
  },
  "batch/too_large": {
    cause: msg`a row is larger than what is sent at once`,
  },
  "agent/unread": {
    cause: msg`the recording failed`,
    remedy: msg`The task tells why.`,
  },
  "agent/killed": {
    cause: msg`the agent was killed before it had stored them`,
    remedy: msg`The system's log tells who killed it.`,
  },
  "agent/forgotten": {
    cause: msg`the agent that recorded them does not know them any more`,
  },
  "agent/not_recorded": {
    cause: msg`the task was wanted, but did not run`,
    remedy: msg`Look whether the machine and its agent run.`,
  },
  "spool/full": {
    cause: msg`the server was away for longer than the agent's disk space lasted`,
    remedy: msg`Give the agent more (spool_bytes).`,
  },
  "spool/disk_full": {
    cause: msg`the machine's disk was full`,
    remedy: msg`Free space on the machine's disk.`,
  },
  "spool/damaged": {
    cause: msg`a file of the agent on its disk was damaged`,
    remedy: msg`Look after the machine's disk.`,
  },
  "ingest/undescribed": {
    cause: msg`the server does not know the stream or its columns`,
    remedy: msg`Update server and agent.`,
  },
  "ingest/other_schema": {
    cause: msg`the server knows the stream with other columns`,
    remedy: msg`Update server and agent.`,
  },
  "ingest/restored": {
    cause: msg`the server's database was restored from an older copy`,
  },
  "ingest/too_old": {
    cause: msg`they are older than what the server keeps`,
    remedy: msg`The setting keep_days tells how long.`,
  },
  "ingest/bad_time": {
    cause: msg`their times cannot be right`,
    remedy: msg`Look at the machine's clock.`,
  },
};

/** Of a record that the server could not store, for any other reason. */
const REFUSED: Told = {
  cause: msg`the server could not store them`,
  remedy: msg`An operator finds them with \`scope admin quarantine\`.`,
};

interface Lost {
  place: string;
  reason: string;
}

/** Why events were lost. */
export function causeOf(i18n: I18n, lost: Lost): string {
  const found = told(lost);
  return found ? i18n._(found.cause) : `${lost.reason} (${lost.place})`;
}

/** What helps against it; empty: nothing does, or it is not known. */
export function remedyOf(i18n: I18n, lost: Lost): string {
  const found = told(lost)?.remedy;
  return found ? i18n._(found) : "";
}

function told({ place, reason }: Lost): Told | undefined {
  return TOLD[`${place}/${reason}`] ?? (place === "ingest" ? REFUSED : undefined);
}
