import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { Task } from "../api/answers";
import { count, share, since } from "../parts/format";
import { Empty } from "../parts/states";
import { lostOf } from "./books";

const KINDS: Record<Task["state"], string> = {
  pending: "warn",
  starting: "warn",
  running: "good",
  stopping: "warn",
  stopped: "",
  failed: "bad",
};

export function StateBadge({ task }: { task: Task }) {
  const { t } = useLingui();
  const names: Record<Task["state"], string> = {
    pending: t`waits`,
    starting: t`starts`,
    running: t`records`,
    stopping: t`stops`,
    stopped: t`stopped`,
    failed: t`failed`,
  };
  return <span className={`badge ${KINDS[task.state]}`}>{names[task.state]}</span>;
}

/** What a task watches, as the command line says it. */
export function targetOf(task: Pick<Task, "target">): string {
  return Object.entries(task.target)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

export function TaskTable({ tasks, withNode = false }: { tasks: Task[]; withNode?: boolean }) {
  const { t } = useLingui();
  if (tasks.length === 0) {
    return (
      <Empty title={<Trans>No tasks</Trans>}>
        <Link to="/start">
          <Trans>Start a task</Trans>
        </Link>
      </Empty>
    );
  }
  return (
    <table className="plain">
      <thead>
        <tr>
          <th>{t`Probe`}</th>
          <th>{t`State`}</th>
          {withNode && <th>{t`Machine`}</th>}
          <th>{t`Watches`}</th>
          <th className="number">{t`Stored`}</th>
          <th className="number">{t`Lost`}</th>
          <th className="number">{t`Cost`}</th>
          <th className="number">{t`Age`}</th>
        </tr>
      </thead>
      <tbody>
        {tasks.map((task) => {
          const lost = task.streams.reduce((sum, books) => sum + lostOf(books), 0);
          return (
            <tr key={task.task_id}>
              <td>
                <Link to="/tasks/$task" params={{ task: task.task_id }}>
                  {task.probe}
                </Link>
              </td>
              <td>
                <StateBadge task={task} /> <span className="soft break">{task.reason ?? task.error}</span>
              </td>
              {withNode && <td>{task.hostname}</td>}
              <td className="break">{targetOf(task) || t`the whole machine`}</td>
              <td className="number">{count(task.streams.reduce((sum, books) => sum + books.stored, 0))}</td>
              <td className={lost ? "number bad" : "number"}>{count(lost)}</td>
              <td className="number">{task.cost ? share(task.cost.cpu_share) : "–"}</td>
              <td className="number">{since(task.created)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
