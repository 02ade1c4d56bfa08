import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { Task } from "../api/answers";
import { count, share, since, visible } from "../parts/format";
import { said } from "../parts/said";
import { Empty } from "../parts/states";
import { Table } from "../parts/table";
import { lostOf } from "./books";
import { OF_TASKS } from "./sentences";

const KINDS: Record<Task["state"], string> = {
  pending: "warn",
  starting: "warn",
  running: "good",
  stopping: "warn",
  stopped: "",
  failed: "bad",
};

/** The state of a task, or of a run of it. */
export function StateBadge({ state }: { state: Task["state"] }) {
  const { t } = useLingui();
  const names: Record<Task["state"], string> = {
    pending: t`waits`,
    starting: t`starts`,
    running: t`records`,
    stopping: t`stops`,
    stopped: t`stopped`,
    failed: t`failed`,
  };
  return <span className={`badge ${KINDS[state]}`}>{names[state]}</span>;
}

/** What a task watches, as the command line says it. */
export function targetOf(task: Pick<Task, "target">): string {
  return Object.entries(task.target)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

export function TaskTable({ tasks, withNode = false, first }: { tasks: Task[]; withNode?: boolean; first?: number }) {
  const { t, i18n } = useLingui();
  if (tasks.length === 0) {
    return (
      <Empty title={<Trans>No tasks</Trans>}>
        <Link to="/start">
          <Trans>Start a task</Trans>
        </Link>
      </Empty>
    );
  }
  const lost = (task: Task) => task.streams.reduce((sum, books) => sum + lostOf(books), 0);
  return (
    <Table
      rows={tasks}
      first={first}
      keyOf={(task) => task.task_id}
      fields={[
        {
          name: t`Probe`,
          show: (task) => (
            <Link to="/tasks/$task" params={{ task: task.task_id }}>
              {task.probe}
            </Link>
          ),
        },
        {
          name: t`State`,
          show: (task) => (
            <>
              <StateBadge state={task.state} /> <span className="soft break">{visible(said(i18n, task.reason ?? task.error ?? "", OF_TASKS))}</span>
            </>
          ),
        },
        withNode && { name: t`Machine`, className: "break", show: (task: Task) => visible(task.hostname) },
        { name: t`Watches`, className: "break", show: (task) => targetOf(task) || t`the whole machine` },
        { name: t`Stored`, number: true, show: (task) => count(task.streams.reduce((sum, books) => sum + books.stored, 0)) },
        { name: t`Lost`, number: true, show: (task) => <span className={lost(task) ? "bad" : undefined}>{count(lost(task))}</span> },
        { name: t`Cost`, number: true, show: (task) => (task.cost ? share(task.cost.cpu_share) : "–") },
        { name: t`Age`, number: true, show: (task) => since(task.created) },
      ]}
    />
  );
}
