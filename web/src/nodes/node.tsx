import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";

import type { Node } from "../api/answers";
import { Devices } from "../gpu/devices";
import { bytes, duration, moment, since, visible } from "../parts/format";
import { Empty, Shown } from "../parts/states";
import { ProcessTree } from "../processes/processtree";
import { TaskTable } from "../tasks/tasktable";
import { allTasks } from "../tasks/tasks.api";
import { NodeState } from "./nodes";
import { nodes } from "./nodes.api";
import "./nodes.css";
import { Report } from "./report";
import { SystemCharts } from "./systemcharts";

const [PROCESSES, TASKS] = [30, 12]; // that are shown at first

/** One machine: what it is, what runs, what is recorded, and what its kernel allows. */
export function OneNode() {
  const { node: id } = useParams({ from: "/inside/nodes/$node" });
  const found = useQuery({ ...nodes, select: (all) => all.find((one) => one.machine_id === id) ?? null });
  const tasks = useQuery({ ...allTasks, select: (all) => all.filter((task) => task.node === id) });
  return (
    <div className="screen">
      <Shown of={found} height={200}>
        {(node) =>
          node === null ? (
            <Empty title={<Trans>No machine has this id</Trans>}>{id}</Empty>
          ) : (
            <>
              <header>
                <h1 className="break">{visible(node.hostname)}</h1>
                <NodeState node={node} />
                <span className="spring" />
                <Link to="/start" search={{ machine: node.machine_id }} className="button">
                  <Trans>Start a task</Trans>
                </Link>
              </header>
              <System node={node} />
              <SystemCharts machine={node.machine_id} />
              <Devices machine={node.machine_id} />
              <section className="card">
                <h2>
                  <Trans>Processes</Trans>{" "}
                  <Link to="/processes" search={(before) => ({ ...before, machine: node.machine_id })} className="soft">
                    <Trans>alone</Trans>
                  </Link>
                </h2>
                <ProcessTree machine={node.machine_id} most={PROCESSES} />
              </section>
              <section className="card scroll">
                <h2>
                  <Trans>Tasks</Trans>
                </h2>
                <Shown of={tasks}>{(all) => <TaskTable tasks={all} first={TASKS} />}</Shown>
              </section>
              <Report node={node.machine_id} />
            </>
          )
        }
      </Shown>
    </div>
  );
}

function System({ node }: { node: Node }) {
  const { t } = useLingui();
  const facts: [string, string][] = [
    [t`Kernel`, visible(`${node.kernel} ${node.architecture}`)],
    [t`CPUs`, String(node.cpus)],
    [t`Memory`, bytes(node.memory_bytes)],
    [t`Booted`, node.booted ? `${moment(node.booted)} (${since(node.booted)})` : "–"],
    [t`Agent`, node.agent_version],
    [t`Clock`, duration(node.clock_ahead_ns)],
    [t`Certificate until`, node.expires ? moment(node.expires) : "–"],
    [t`Waits to be sent`, node.spool ? `${bytes(node.spool.bytes)} / ${bytes(node.spool.limit_bytes)}` : "–"],
    [t`Machine id`, node.machine_id],
  ];
  return (
    <dl className="card system">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt className="soft">{name}</dt>
          <dd className="break">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
