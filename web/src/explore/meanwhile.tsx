import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, data } from "../api/client";
import { share, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { type Selection, type Times, timesOf } from "../parts/times";

const STREAM = "sched_process_summary";
const CELL = "sum(on_cpu_ns)";
const INTERVAL_MS = 5000; // of the summary: what ran in a window is told at most so long after it
const READ = 100; // processes
const SHOWN = 12;

interface Ran {
  pid: number;
  comm: string;
  inside: number;
  outside: number;
}

/** Which programs were on the CPUs while the brushed rows waited for one: first those that were not before. */
export function Meanwhile({ selection }: { selection: Selection }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const { machine } = search;
  const found = useQuery({
    queryKey: ["meanwhile", machine, selection.since, selection.until, search.since, search.until],
    queryFn: async ({ signal }) => {
      const [inside, whole] = await Promise.all([ran(selection, machine, signal), ran(timesOf(search), machine, signal)]);
      const [short, long] = [length(selection), length(timesOf(search))];
      const all = [...inside].map(([key, { group, ns }]) => ({
        pid: Number(group.pid),
        comm: String(group.comm),
        inside: ns / short,
        outside: Math.max(0, (whole.get(key)?.ns ?? 0) - ns) / Math.max(1, long - short),
      }));
      return all.sort((one, other) => other.inside - other.outside - (one.inside - one.outside));
    },
    staleTime: Infinity,
  });
  return (
    <section aria-label={t`On the CPUs meanwhile`}>
      <h3>
        <Trans>They waited for a CPU. On the CPUs meanwhile:</Trans>
      </h3>
      <Shown of={found} height={160}>
        {(all) =>
          all.length === 0 ? (
            <Empty title={<Trans>The scheduler is not recorded here</Trans>}>
              <Link to="/start" search={{ machine, probe: "sched" }}>
                <Trans>Start the probe sched</Trans>
              </Link>
            </Empty>
          ) : (
            <Table<Ran>
              rows={all}
              first={SHOWN}
              keyOf={(one) => one.pid}
              fields={[
                { name: t`Program`, className: "break", show: (one) => visible(one.comm) },
                { name: t`pid`, number: true, show: (one) => one.pid },
                { name: t`of a CPU, inside`, number: true, show: (one) => share(one.inside) },
                { name: t`outside`, number: true, show: (one) => share(one.outside) },
              ]}
            />
          )
        }
      </Shown>
    </section>
  );
}

function length({ since, until }: Times): number {
  return (until.getTime() - since.getTime() + INTERVAL_MS) * 1e6;
}

/** Time on a CPU in a window, by process. */
async function ran({ since, until }: Times, machine: string | undefined, signal: AbortSignal) {
  const after = new Date(until.getTime() + INTERVAL_MS);
  const query = { since: since.toISOString(), until: after.toISOString(), machine, by: "pid,comm", cells: CELL, top: READ };
  const answer = await data(api.GET("/api/v1/aggregates/{stream}", { params: { path: { stream: STREAM }, query }, signal }));
  return new Map(answer.groups.map(({ key, values }) => [`${key.pid} ${key.comm}`, { group: key, ns: values[CELL] ?? 0 }]));
}
