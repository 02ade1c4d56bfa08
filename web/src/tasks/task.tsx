import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";

import { api, data } from "../api/client";
import type { Task } from "../api/answers";
import { includes, me } from "../api/session";
import { Command } from "../parts/command";
import { bytes, count, duration, moment, share, visible } from "../parts/format";
import { said } from "../parts/said";
import { Failed, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { BooksInWords } from "./books";
import { commandOf } from "./command";
import { OF_TASKS } from "./sentences";
import { oneTask } from "./tasks.api";
import "./tasks.css";
import { StateBadge, targetOf } from "./tasktable";

export function OneTask() {
  const { task: id } = useParams({ from: "/inside/tasks/$task" });
  const found = useQuery(oneTask(id));
  return (
    <div className="screen">
      <Shown of={found} height={300}>
        {(task) => <Whole task={task} />}
      </Shown>
    </div>
  );
}

function Whole({ task }: { task: Task }) {
  const { t, i18n } = useLingui();
  const { data: who } = useQuery(me);
  const queries = useQueryClient();
  const stop = useMutation({
    mutationFn: () => data(api.POST("/api/v1/tasks/{task_id}/stop", { params: { path: { task_id: task.task_id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["tasks"] }),
  });
  const wrong = task.reason ?? task.error;
  const ends = {
    request: t`it was stopped`,
    lease: t`its time was over`,
    failure: t`it failed`,
    shutdown: t`its agent was stopped`,
    killed: t`its agent was killed`,
  };
  return (
    <>
      <header>
        <h1>{task.probe}</h1>
        <StateBadge state={task.state} />
        <span className="soft">
          <Link to="/nodes/$node" params={{ node: task.node }}>
            {visible(task.hostname)}
          </Link>{" "}
          · {targetOf(task) || t`the whole machine`}
          {task.where && <span className="break"> · {task.where}</span>}
        </span>
        <span className="spring" />
        {task.wanted && includes(who?.role, "operator") && (
          <button type="button" className="danger" disabled={stop.isPending} onClick={() => stop.mutate()}>
            <Trans>Stop</Trans>
          </button>
        )}
      </header>
      {stop.error && <Failed error={stop.error} />}
      {wrong && <p className="card warn break">{visible(said(i18n, wrong, OF_TASKS))}</p>}
      <div className="cards">
        <section className="card">
          <h2>
            <Trans>What was recorded</Trans>
          </h2>
          {task.streams.length === 0 && (
            <p className="soft">
              <Trans>Nothing yet.</Trans>
            </p>
          )}
          {task.streams.map((books) => (
            <BooksInWords key={books.stream} task={task} books={books} />
          ))}
          {task.notes.map((note) => (
            <p key={note} className="break">
              ⚠ {visible(said(i18n, note, OF_TASKS))}
            </p>
          ))}
        </section>
        <section className="card">
          <h2>
            <Trans>What it costs</Trans>
          </h2>
          {task.cost ? (
            <p>
              <Trans>
                <b>{share(task.cost.cpu_share)}</b> of a CPU: {count(task.cost.runs_per_second)} runs a second of{" "}
                {duration(task.cost.ns_per_run)} each. {bytes(task.sent_bytes)} were sent.
              </Trans>
            </p>
          ) : (
            <p className="soft">
              <Trans>The kernel keeps no statistics of it.</Trans>
            </p>
          )}
          <h2>
            <Trans>The same on the command line</Trans>
          </h2>
          <Command text={commandOf({ ...task, node: task.hostname })} />
        </section>
      </div>
      <section className="card scroll">
        <h2>
          <Trans>Runs</Trans>
        </h2>
        <Table
          rows={task.runs}
          keyOf={(run) => run.run_id}
          fields={[
            { name: t`Started`, show: (run) => run.started ? moment(run.started) : "–" },
            { name: t`Ended`, show: (run) => run.ended ? moment(run.ended) : "–" },
            { name: t`State`, show: (run) => <><StateBadge state={run.state} /> <span className="soft">{run.end && ends[run.end]}</span> <span className="bad break">{visible(run.error ?? "")}</span></> },
            { name: t`Attached by`, className: "break", show: (run) => run.attach_point },
            { name: t`Sent`, number: true, show: (run) => bytes(run.sent_bytes) },
            { name: t`Notes`, className: "break", show: (run) => visible(run.notes.map((note) => said(i18n, note, OF_TASKS)).join("; ")) },
          ]}
        />
      </section>
    </>
  );
}
