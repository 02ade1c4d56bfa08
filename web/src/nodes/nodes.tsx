import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Node } from "../api/answers";
import { includes, me } from "../api/session";
import { Find } from "../parts/find";
import { bytes, duration, since, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { Join } from "./join";
import { nodes } from "./nodes.api";

/** The machines, and how another one joins. */
export function Nodes() {
  const { t } = useLingui();
  const found = useQuery(nodes);
  const { data: who } = useQuery(me);
  const { find = "" } = useAddress()[0];
  const [joins, setJoins] = useState(false);
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Nodes</Trans>
        </h1>
        <span className="spring" />
        <Find label={t`Find a machine`} placeholder={t`hostname, kernel, label=value`} />
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
              <Table
                rows={shown}
                keyOf={(node) => node.machine_id}
                fields={[
                  {
                    name: t`Machine`,
                    show: (node) => (
                      <Link to="/nodes/$node" params={{ node: node.machine_id }}>
                        {visible(node.hostname)}
                      </Link>
                    ),
                  },
                  { name: t`State`, show: (node) => <NodeState node={node} /> },
                  { name: t`Kernel`, show: (node) => <>{visible(node.kernel)} <span className="soft">{node.architecture}</span></> },
                  { name: t`CPUs`, number: true, show: (node) => node.cpus },
                  { name: t`Memory`, number: true, show: (node) => bytes(node.memory_bytes) },
                  { name: t`Waits to be sent`, number: true, show: (node) => node.spool ? bytes(node.spool.bytes) : "–" },
                  { name: t`Agent`, show: (node) => node.agent_version },
                  {
                    name: t`Labels`,
                    show: (node) =>
                      Object.entries(node.labels).map(([name, value]) => (
                        <span key={name} className="badge">
                          {name}={value}
                        </span>
                      )),
                  },
                ]}
              />
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
          <Trans>{visible(node.conflict.hostname)} has the same machine id</Trans>
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
