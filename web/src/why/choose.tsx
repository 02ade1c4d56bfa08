import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type Process, processes } from "../nodes/processes.api";
import { share, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";

const SHOWN = 30;

/** The processes that run now: which one is slow? */
export function Choose({ onChoose }: { onChoose: (chosen: Process) => void }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const [find, setFind] = useState("");
  const found = useQuery(processes(search.machine));
  return (
    <section className="card">
      <h2>
        <Trans>Which process?</Trans>
      </h2>
      <input type="search" aria-label={t`Find a process`} placeholder={t`name or pid`} value={find} onChange={(event) => setFind(event.target.value)} />
      <Shown of={found} height={400}>
        {(all) => {
          const words = find.toLowerCase().split(/\s+/);
          const shown = all.filter((one) => words.every((word) => `${one.pid} ${one.comm} ${one.hostname}`.toLowerCase().includes(word)));
          if (all.length === 0) return <Empty title={<Trans>The scheduler is not recorded here</Trans>} />;
          return (
            <Table
              rows={shown}
              first={SHOWN}
              keyOf={(one) => `${one.hostname} ${one.pid} ${one.start}`}
              fields={[
                {
                  name: t`pid`,
                  number: true,
                  show: (one) => (
                    <button type="button" className="quiet" onClick={() => onChoose(one)}>
                      {one.pid}
                    </button>
                  ),
                },
                { name: t`Program`, show: (one) => visible(one.comm) },
                { name: t`Machine`, show: (one) => visible(one.hostname) },
                { name: t`on a CPU`, number: true, show: (one) => share(one.onCpu) },
                { name: t`waiting for one`, number: true, show: (one) => share(one.waiting) },
              ]}
            />
          );
        }}
      </Shown>
    </section>
  );
}
