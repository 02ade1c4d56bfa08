import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { json } from "../api/client";
import { cell, moment } from "../parts/format";
import { Shown } from "../parts/states";
import { Table } from "../parts/table";

interface Entry {
  number: number;
  time: string;
  actor: string;
  address: string;
  act: string;
  object: string;
  detail: unknown;
}

/** What people did, and whether the log is whole. */
export function Audit() {
  const { t } = useLingui();
  const found = useQuery({ queryKey: ["audit"], queryFn: ({ signal }) => json<{ entries: Entry[] }>("audit", { limit: 200 }, signal), refetchInterval: 15_000 });
  const verdict = useQuery({ queryKey: ["audit", "verdict"], queryFn: ({ signal }) => json<Record<string, unknown>>("audit/verdict", {}, signal), staleTime: 60_000 });
  return (
    <section className="card scroll">
      <h2>
        <Trans>Audit log</Trans>
      </h2>
      {verdict.data && <p className="soft">{Object.entries(verdict.data).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${cell(value)}`).join(" · ")}</p>}
      <Shown of={found} height={300}>
        {({ entries }) => (
          <Table
            rows={entries}
            keyOf={(entry) => entry.number}
            fields={[
              { name: t`When`, show: (entry) => moment(entry.time) },
              { name: t`Who`, className: "break", show: (entry) => cell(entry.actor) },
              { name: t`From`, show: (entry) => cell(entry.address) },
              { name: t`Did`, show: (entry) => entry.act },
              { name: t`To`, className: "break", show: (entry) => cell(entry.object) },
            ]}
          />
        )}
      </Shown>
    </section>
  );
}
