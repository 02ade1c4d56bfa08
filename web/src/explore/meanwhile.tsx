import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, data } from "../api/client";
import { share, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { type Selection, type Times, timesOf } from "../parts/times";
import { meanwhile, type Ran } from "./ran";

const STREAM = "sched_process_summary";
const CELL = "sum(on_cpu_ns)";
const INTERVAL_MS = 5000; // of the summary: what ran in a window is told at most so long after it
const READ = 99; // processes: one less than the API answers at most, so that a further one is seen
const SHOWN = 12;

/** Which programs were on the CPUs while the brushed rows waited for one: first those that were not before. */
export function Meanwhile({ selection }: { selection: Selection }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const { machine } = search;
  const found = useQuery({
    queryKey: ["meanwhile", machine, selection.since, selection.until, search.since, search.until],
    queryFn: async ({ signal }) => {
      const inside = await ran(selection, signal, machine);
      const shown = inside.slice(0, READ);
      // Of these alone: one of them may be rare in the whole window, and not among its busiest.
      const whole = shown.length > 0 ? await ran(timesOf(search), signal, machine, `pid in (${[...new Set(shown.map((one) => one.pid))].join(", ")})`) : [];
      return { rows: meanwhile(shown, length(selection), whole, length(timesOf(search))), more: inside.length > READ };
    },
    staleTime: Infinity,
  });
  return (
    <section aria-label={t`On the CPUs meanwhile`}>
      <h3>
        <Trans>They waited for a CPU. On the CPUs meanwhile:</Trans>
      </h3>
      <Shown of={found} height={160}>
        {({ rows, more }) =>
          rows.length === 0 ? (
            <Empty title={<Trans>The scheduler is not recorded here</Trans>}>
              <Link to="/start" search={{ machine, probe: "sched" }}>
                <Trans>Start the probe sched</Trans>
              </Link>
            </Empty>
          ) : (
            <>
              <Table
                rows={rows}
                first={SHOWN}
                keyOf={(one) => `${one.pid} ${one.comm}`}
                fields={[
                  { name: t`Program`, className: "break", show: (one) => visible(one.comm) },
                  { name: t`pid`, number: true, show: (one) => one.pid },
                  { name: t`of a CPU, inside`, number: true, show: (one) => share(one.inside) },
                  { name: t`outside`, number: true, show: (one) => (one.outside === undefined ? "–" : share(one.outside)) },
                ]}
              />
              {more && <p className="soft">{t`Only the busiest ${READ} are compared: the others are hidden`}</p>}
            </>
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
async function ran({ since, until }: Times, signal: AbortSignal, machine: string | undefined, where?: string): Promise<Ran[]> {
  const after = new Date(until.getTime() + INTERVAL_MS);
  const query = { since: since.toISOString(), until: after.toISOString(), machine, where, by: "pid,comm", cells: CELL, top: READ + 1 };
  const answer = await data(api.GET("/api/v1/aggregates/{stream}", { params: { path: { stream: STREAM }, query }, signal }));
  return answer.groups.map(({ key, values }) => ({ pid: Number(key.pid), comm: String(key.comm), ns: Number(values[CELL] ?? 0) }));
}
