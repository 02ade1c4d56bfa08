import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { bytes, cell, count, duration, visible } from "../parts/format";
import { type Group, useTotals } from "../parts/series";
import { Spark } from "../parts/spark";
import { Empty, Partial, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { growth } from "./growth";
import "./gpu.css";

const SHOWN = 12;
const READ = 99; // groups: one less than the API answers at most, so that a further one is seen
const [MOST, LEAST, COUNT, AGE] = ["max(live_bytes)", "min(live_bytes)", "max(live_count)", "max(mean_age_ns)"];

/** What is allocated and not freed at the end of the window, by the code that allocated it: what grows comes first. */
export function Memory() {
  const { t } = useLingui();
  const title = t`GPU memory that is not freed, by the code that allocated it`;
  const found = useTotals({ stream: "cuda_live", by: ["machine", "comm", "pid", "memory", "stack"], cells: [MOST, LEAST, COUNT, AGE], top: READ + 1, series: true, card: title });
  const held = useMemo(() => heldAtTheEnd(found.data?.groups.slice(0, READ) ?? []), [found.data]);
  return (
    <section className="card scroll">
      <h2>{title}</h2>
      <Shown of={found} height={160}>
        {({ complete, groups }) =>
          held.length === 0 ? (
            <Empty title={<Trans>No unfreed CUDA memory recorded</Trans>}>
              <Link to="/start" search={{ probe: "cuda" }}>
                <Trans>Start the probe cuda</Trans>
              </Link>
            </Empty>
          ) : (
            <>
              {!complete && (
                <Partial>
                  <Trans>Of the newest rows only: the window has too many.</Trans>
                </Partial>
              )}
              <Table
                rows={held}
                first={SHOWN}
                keyOf={(_, number) => number}
                fields={[
                  { name: t`Program`, show: ({ key }) => <>{cell(key.comm)} <span className="soft">{cell(key.pid)}</span></> },
                  { name: t`Allocated by`, className: "break mono", show: ({ key }) => visible(innermost(key.stack)) },
                  { name: t`memory`, show: ({ key }) => cell(key.memory) },
                  { name: t`over time`, show: (one) => <Spark values={one.steps.map((step) => step.most)} label={t`from ${bytes(one.steps[0]?.least ?? 0)} to ${bytes(one.held)}`} /> },
                  { name: t`held`, number: true, show: (one) => bytes(one.held) },
                  { name: t`an hour`, number: true, show: ({ growth: { perHour } }) => (perHour > 0 ? `+${bytes(perHour)}` : perHour < 0 ? bytes(perHour) : <span className="soft">±0</span>) },
                  { name: t`allocations`, number: true, show: (one) => count(one.allocations) },
                  { name: t`mean age`, number: true, show: (one) => duration(one.age) },
                  { show: (one) => (one.growth.grows ? <span className="badge warn">{t`grows`}</span> : undefined) },
                ]}
              />
              {groups.length > READ && <p className="soft">{t`More groups are hidden; a filter narrows them`}</p>}
              <p className="row">
                <Link to="/flames/$stream" params={{ stream: "cuda_live" }} search={(before) => ({ ...before, brushed: undefined, view: undefined })}>
                  <Trans>As a flame graph</Trans>
                </Link>
              </p>
            </>
          )
        }
      </Shown>
    </section>
  );
}

function heldAtTheEnd(groups: Group[]) {
  return groups
    .map(({ key, points }) => {
      const steps = points.map(({ time, values }) => ({ at: Date.parse(time) / 1000, least: Number(values[LEAST] ?? 0), most: Number(values[MOST] ?? 0) }));
      const last = points.at(-1)?.values ?? {};
      // If the process has ended in the last step, its least is 0: all is freed.
      const held = Number(last[LEAST] ?? 0) > 0 ? Number(last[MOST] ?? 0) : 0;
      return { key, steps, held, allocations: Number(last[COUNT] ?? 0), age: Number(last[AGE] ?? 0), growth: growth(steps) };
    })
    .filter((one) => one.held > 0)
    .sort((one, other) => Number(other.growth.grows) - Number(one.growth.grows) || other.held - one.held);
}

/** The last frames of a stack, innermost first. */
function innermost(stack: unknown): string {
  return String(stack ?? "–").split(";").slice(-3).reverse().join(" ← ");
}
