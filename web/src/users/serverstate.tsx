import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { api, data } from "../api/client";
import { bytes, count, duration } from "../parts/format";
import { Partial, Shown } from "../parts/states";
import { Table } from "../parts/table";

const PARTS = ["database", "ingest", "sessions", "redis"] as const;

/** The parts of this server, what waits to be written, and the limits of what is kept. */
export function ServerState() {
  const { t } = useLingui();
  const server = useQuery({ queryKey: ["server"], queryFn: ({ signal }) => data(api.GET("/api/v1/server", { signal })), refetchInterval: 10_000 });
  const storage = useQuery({ queryKey: ["storage"], queryFn: ({ signal }) => data(api.GET("/api/v1/storage", { signal })) }).data;
  const names = { database: t`Database`, ingest: t`Writing`, sessions: t`Sessions of agents`, redis: t`Redis` };
  return (
    <section className="card">
      <h2>
        <Trans>Server</Trans>
      </h2>
      <Shown of={server} height={160}>
        {(state) => (
          <>
            <dl className="settings-facts">
              {PARTS.map((part) => (
                <Fact key={part} name={names[part]}>
                  <span className={state[part] === "ok" ? "badge good" : "badge bad"}>{state[part]}</span>
                </Fact>
              ))}
              <Fact name={t`Connected agents`}>{count(state.agents)}</Fact>
              <Fact name={t`Waits to be written`}>
                {bytes(state.waiting_bytes)} <span className="soft">{duration(state.oldest_waiting_s * 1e9)}</span>
              </Fact>
              <Fact name={t`Refused peers`}>
                {Object.entries(state.refused_peers)
                  .map(([reason, times]) => `${reason}: ${count(times)}`)
                  .join(", ") || t`none`}
              </Fact>
              {storage && (
                <>
                  <Fact name={t`Kept at most`}>{bytes(storage.limit_bytes)}</Fact>
                  <Fact name={t`Left free on the disk`}>{bytes(storage.floor_bytes)}</Fact>
                  <Fact name={t`Oldest day`}>{storage.oldest_day ?? "–"}</Fact>
                </>
              )}
            </dl>
            {storage?.problem && <Partial>{storage.problem}</Partial>}
            {state.replicas.length > 0 && (
              <Table
                rows={state.replicas}
                keyOf={(one) => one.name}
                fields={[
                  { name: t`Replica`, show: (one) => one.name },
                  { name: t`State`, show: (one) => one.state },
                  { name: t`Age`, number: true, show: (one) => (one.age_s === null ? "–" : duration(one.age_s * 1e9)) },
                ]}
              />
            )}
            <p className="soft">
              <Trans>Limits, addresses and times are settings of the server: its command line, environment or file. See docs/settings.md, or scope config show on its machine.</Trans>
            </p>
          </>
        )}
      </Shown>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt className="soft">{name}</dt>
      <dd className="break">{children}</dd>
    </div>
  );
}
