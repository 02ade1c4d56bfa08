import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Node } from "../api/answers";
import { includes, me } from "../api/session";
import { bytes, duration, since } from "../parts/format";
import { Empty, Shown } from "../parts/states";
import { Join } from "./join";
import { nodes } from "./nodes.api";

/** The machines, and how another one joins. */
export function Nodes() {
  const { t } = useLingui();
  const found = useQuery(nodes);
  const { data: who } = useQuery(me);
  const [find, setFind] = useState("");
  const [joins, setJoins] = useState(false);
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Nodes</Trans>
        </h1>
        <span className="spring" />
        <input type="search" aria-label={t`Find a machine`} placeholder={t`hostname, kernel, label=value`} value={find} onChange={(event) => setFind(event.target.value)} />
        {includes(who?.role, "admin") && (
          <button type="button" className="primary" aria-expanded={joins} onClick={() => setJoins(!joins)}>
            <Trans>Join a machine</Trans>
          </button>
        )}
      </header>
      {joins && <Join />}
      <section className="card scroll">
        <Shown of={found} height={300}>
          {(all) => {
            const shown = all.filter((node) => matches(node, find));
            if (all.length === 0) {
              return (
                <Empty title={<Trans>No machine has joined yet</Trans>}>
                  <Trans>An admin makes a token here, and the agent joins with it.</Trans>
                </Empty>
              );
            }
            return (
              <table className="plain">
                <thead>
                  <tr>
                    <th>{t`Machine`}</th>
                    <th>{t`State`}</th>
                    <th>{t`Kernel`}</th>
                    <th className="number">{t`CPUs`}</th>
                    <th className="number">{t`Memory`}</th>
                    <th className="number">{t`Waits to be sent`}</th>
                    <th>{t`Agent`}</th>
                    <th>{t`Labels`}</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((node) => (
                    <tr key={node.machine_id}>
                      <td>
                        <Link to="/nodes/$node" params={{ node: node.machine_id }}>
                          {node.hostname}
                        </Link>
                      </td>
                      <td>
                        <NodeState node={node} />
                      </td>
                      <td>
                        {node.kernel} <span className="soft">{node.architecture}</span>
                      </td>
                      <td className="number">{node.cpus}</td>
                      <td className="number">{bytes(node.memory_bytes)}</td>
                      <td className="number">{node.spool ? bytes(node.spool.bytes) : "–"}</td>
                      <td>{node.agent_version}</td>
                      <td>
                        {Object.entries(node.labels).map(([name, value]) => (
                          <span key={name} className="badge">
                            {name}={value}
                          </span>
                        ))}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            );
          }}
        </Shown>
      </section>
    </div>
  );
}

function matches(node: Node, find: string): boolean {
  const labels = Object.entries(node.labels).map(([name, value]) => `${name}=${value}`);
  const text = [node.hostname, node.kernel, node.machine_id, ...labels].join(" ").toLowerCase();
  return find.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Whether the machine is connected, and what is wrong with it. */
export function NodeState({ node }: { node: Node }) {
  const { t } = useLingui();
  const skew = Math.abs(node.clock_ahead_ns);
  return (
    <span className="row">
      {node.connected ? (
        <span className="badge good">{t`up`}</span>
      ) : (
        <span className="badge bad">
          <Trans>away for {since(node.last_seen)}</Trans>
        </span>
      )}
      {node.membership && node.membership !== "joined" && <span className="badge warn">{node.membership}</span>}
      {node.conflict && (
        <span className="badge bad">
          <Trans>{node.conflict.hostname} has the same machine id</Trans>
        </span>
      )}
      {skew > 2e9 && (
        <span className="badge warn">
          <Trans>its clock is {duration(skew)} off</Trans>
        </span>
      )}
    </span>
  );
}
