import { Trans, useLingui } from "@lingui/react/macro";
import { useMemo, useState } from "react";

import { kindOf, ordered, type Stream } from "../api/columns";
import { filterOf } from "../parts/grammar";
import { Chart } from "../parts/chart";
import { also } from "../parts/complete";
import { cell, clock, count, quantity } from "../parts/format";
import { useMarks } from "../parts/marks";
import { useAddress } from "../parts/search";
import { linesOf } from "../parts/points";
import { type Group, useTotals } from "../parts/series";
import { Empty, Partial, Shown } from "../parts/states";
import { readSelection, seconds, step, timesOf } from "../parts/times";

const LINES = 8;
const [FIRST, MORE] = [20, 99]; // groups: one more is asked for, and the API answers at most 100
const MOST = 60; // columns that are offered to group by

/** The groups with the most, as a table and as lines. */
export function Groups({ stream }: { stream: Stream }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const [top, setTop] = useState(FIRST);
  const measure = stream.columns.find((one) => one.name === stream.rollup.measured);
  const unit = measure?.unit ?? "";
  const keys = ordered(stream).filter((one) => kindOf(one) !== "list" && !one.stack).map((one) => one.name).slice(0, MOST);
  const by = (search.by ?? stream.rollup.by.join(",")).split(",").filter((key) => [...keys, "machine"].includes(key));
  const cells = ["count", ...(stream.failed ? ["failed"] : []), ...(measure ? ["sum", "p50", "p99"].map((one) => `${one}(${measure.name})`) : [])];
  const order = cells.find((one) => one === search.column) ?? (measure ? `sum(${measure.name})` : "count");
  const asks = [order, ...cells.filter((one) => one !== order)];
  const totals = useTotals({ stream: stream.name, by, cells: asks, top: top + 1, series: true, whole: false });
  const marks = useMarks(stream.name);
  const shown = readSelection(search.brushed) ?? timesOf(search);
  const every = seconds(step(shown)) ?? 60;
  const groups = totals.data?.groups;
  const { times, lines } = useMemo(
    () => linesOf((groups ?? []).slice(0, LINES).map((group) => ({ name: nameOf(group), cell: order, group })), every, order === "count" || order === "failed" ? 1 / every : 1),
    [groups, order, every],
  );
  const told = (cell: string, value: number | null | undefined) => {
    if (value === null || value === undefined) return "–";
    return cell === "count" || cell === "failed" ? count(value) : quantity(value, unit);
  };
  const { since, until } = shown;
  return (
    <>
      <div className="row">
        {by.map((key) => (
          <button key={key} type="button" aria-pressed title={t`Do not group by it`} onClick={() => change({ by: by.filter((one) => one !== key).join(",") || undefined }, true)}>
            {key} ×
          </button>
        ))}
        <select aria-label={t`Group by`} value="" onChange={(event) => change({ by: [...by, event.target.value].join(",") }, true)}>
          <option value="">{t`group by …`}</option>
          {[...keys, "machine"].filter((key) => !by.includes(key)).map((key) => (
            <option key={key}>{key}</option>
          ))}
        </select>
        <span className="spring" />
        <label>
          {t`largest first by`}{" "}
          <select value={order} onChange={(event) => change({ column: event.target.value }, true)}>
            {cells.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      </div>
      {totals.data?.complete === false && (
        <Partial>
          <Trans>Of the newest rows only, since {clock(totals.data.read_since)}: the window has too many.</Trans>
        </Partial>
      )}
      <Shown of={totals} height={400}>
        {(found) =>
          found.groups.length === 0 ? (
            <Empty title={<Trans>Nothing recorded in this window</Trans>} />
          ) : (
            <>
              <Chart
                label={t`Groups over time`}
                times={times}
                lines={lines}
                marks={marks}
                format={(value) => told(order, value)}
                since={since.getTime() / 1000}
                until={until.getTime() / 1000}
              />
              {found.groups.length > LINES && <p className="soft">{t`The lines are those of the first ${LINES} groups.`}</p>}
              <div className="scroll">
                <table className="plain groups">
                  <thead>
                    <tr>
                      {by.map((key) => (
                        <th key={key}>{key}</th>
                      ))}
                      {cells.map((cell) => (
                        <th key={cell} className="number" title={cell === "count" ? found.counted : found.quantiles}>
                          {cell}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {found.groups.slice(0, top).map((group) => (
                      <tr key={nameOf(group)}>
                        {by.map((key) => {
                          const of = stream.columns.find((one) => one.name === key);
                          return (
                            <td key={key} className="break">
                              <button type="button" className="quiet" disabled={!of} onClick={() => of && change({ where: also(filterOf(search, stream), of, group.key[key]), view: undefined })}>
                                {cell(group.key[key])}
                              </button>
                            </td>
                          );
                        })}
                        {cells.map((one) => (
                          <td key={one} className={one === "failed" && group.values.failed ? "number bad" : "number"}>
                            {told(one, group.values[one])}
                          </td>
                        ))}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {found.groups.length > top &&
                (top < MORE ? (
                  <button type="button" className="quiet soft" onClick={() => setTop(MORE)}>
                    {t`More groups are hidden: show up to ${MORE}`}
                  </button>
                ) : (
                  <p className="soft">{t`More groups are hidden; a filter narrows them`}</p>
                ))}
            </>
          )
        }
      </Shown>
    </>
  );
}

function nameOf(group: Group): string {
  return Object.values(group.key).map((value) => cell(value)).join(" · ") || "all";
}
