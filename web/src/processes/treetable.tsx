import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { components } from "../api/schema";
import { cell, clock, duration, moment, visible } from "../parts/format";
import { named } from "../parts/process";
import { Table } from "../parts/table";
import type { Placed, Process } from "./tree";

const SHOWN = 400;

interface Props {
  answer: components["schemas"]["Processes"];
  tree: Placed[];
  closed: ReadonlySet<string>;
  onToggle: (key: string) => void;
  /** How many are shown at most. */
  most?: number;
}

/** Processes, indented below their parents; each line has its life in the window as a bar. */
export function Tree({ answer, tree, closed, onToggle, most = SHOWN }: Props) {
  const { t } = useLingui();
  const name = ({ process, key, depth, below }: Placed) => (
    <span className="branch" style={{ paddingInlineStart: depth * 14 }}>
      {below > 0 ? (
        <button type="button" className="quiet" aria-expanded={!closed.has(key)} aria-label={t`Children of ${process.pid}`} onClick={() => onToggle(key)}>
          {closed.has(key) ? `▸ ${below}` : "▾"}
        </button>
      ) : (
        <i />
      )}
      <Link to="/why" search={(before) => ({ ...before, find: undefined, machine: answer.machine_id, ...named(process.pid, process.start_ns) })}>
        {nameOf(process)}
      </Link>
      <span className="soft clip mono" title={visible(commandOf(process))}>
        {visible(commandOf(process))}
      </span>
    </span>
  );
  return (
    <Table
      rows={tree}
      first={most}
      keyOf={(one) => one.key}
      fields={[
        { name: t`Program`, className: "process", show: name },
        { name: t`pid`, number: true, show: ({ process }) => process.pid },
        { name: t`Started`, number: true, show: ({ process }) => (process.started ? <time title={moment(process.started)}>{begun(process.started, answer)}</time> : "–") },
        { name: t`Ended`, show: ({ process }) => <End process={process} /> },
        { name: t`Life`, className: "life", show: ({ process }) => <Life process={process} answer={answer} /> },
        { name: t`on a CPU`, number: true, show: ({ process }) => (process.on_cpu_ns === null ? "–" : duration(process.on_cpu_ns)) },
        { name: t`waiting for one`, number: true, show: ({ process }) => (process.run_queue_ns === null ? "–" : duration(process.run_queue_ns)) },
      ]}
    />
  );
}

function nameOf({ comm, exe, pid }: Process): string {
  return visible(comm ?? exe?.split("/").pop() ?? String(pid));
}

function commandOf({ cmdline, exe }: Process): string {
  return cmdline?.join(" ") ?? exe ?? "";
}

/** With the day, if that is another one than the window's. */
function begun(started: string, { since }: Props["answer"]): string {
  return moment(started).slice(0, 10) === moment(since).slice(0, 10) ? clock(started) : moment(started);
}

function End({ process: { ended, exit_code: code, signal } }: { process: Process }) {
  if (code === null && !signal) return <span className="soft">–</span>;
  return (
    <>
      {ended ? clock(ended) : <Trans>ended</Trans>}{" "}
      {signal ? (
        <span className="bad">
          <Trans>signal {signal}</Trans>
        </span>
      ) : (
        <span className={code ? "bad" : "soft"}>{cell(code)}</span>
      )}
    </>
  );
}

/** From its begin to its end, as a part of the window. */
function Life({ process, answer }: { process: Process; answer: Props["answer"] }) {
  const [begin, end] = [Date.parse(answer.since), Date.parse(answer.until)];
  const at = (time: string | null, other: number) => Math.min(1, Math.max(0, ((time ? Date.parse(time) : other) - begin) / (end - begin)));
  const [from, to] = [at(process.started, begin), at(process.ended, end)];
  return (
    <span className="life-window" aria-hidden="true">
      <i className={process.ended ? "" : "lives"} style={{ insetInlineStart: `${from * 100}%`, width: `max(2px, ${(to - from) * 100}%)` }} />
    </span>
  );
}
