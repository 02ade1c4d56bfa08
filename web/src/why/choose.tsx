import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { processes, STREAM } from "../nodes/processes.api";
import { RanSince } from "../nodes/ransince";
import type { Process } from "../nodes/running";
import { useFilterAmong } from "../parts/asked";
import { Find } from "../parts/find";
import { share, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";

const SHOWN = 30;

/** The processes that run now: which one is slow? */
export function Choose({ onChoose }: { onChoose: (chosen: Process) => void }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const { find = "" } = search;
  const { where, ready } = useFilterAmong([STREAM], t`Which process?`);
  const found = useQuery({ ...processes(search.machine, where), enabled: ready });
  return (
    <section className="card">
      <h2>
        <Trans>Which process?</Trans>
      </h2>
      <Find label={t`Find a process`} placeholder={t`name or pid`} />
      <Shown of={found} height={400}>
        {({ all, since }) => {
          const words = find.toLowerCase().split(/\s+/);
          const shown = all.filter((one) => words.every((word) => `${one.pid} ${one.comm} ${one.hostname}`.toLowerCase().includes(word)));
          if (all.length === 0) return <Empty title={where ? <Trans>No process that runs meets the filter</Trans> : <Trans>The scheduler is not recorded here</Trans>} />;
          return (
            <>
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
              <RanSince since={since} />
            </>
          );
        }}
      </Shown>
    </section>
  );
}
