import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, data } from "../api/client";
import { measured, type Stream } from "../api/columns";
import type { components } from "../api/schema";
import { FlamePicture } from "../flames/picture";
import { useAsked } from "../parts/asked";
import { filterOf } from "../parts/grammar";
import { also } from "../parts/complete";
import { Cut } from "../parts/cut";
import { cell, clock, count, quantity, share } from "../parts/format";
import { meaning } from "../parts/meaning";
import { useAddress } from "../parts/search";
import { Empty, Partial, Shown } from "../parts/states";
import type { Selection } from "../parts/times";
import { LongerTime } from "./longer";
import { Meanwhile } from "./meanwhile";
import { Sampled } from "./sampled";

type Comparison = components["schemas"]["Difference"];
type ColumnDifference = Comparison["columns"][number];

const SHOWN = 6; // columns
const VALUES = 5; // of a column

/** What differs in the brushed part from the rest of the window: columns with their shares, then stacks. */
export function Brushed({ stream, selection }: { stream: Stream; selection: Selection }) {
  const { t } = useLingui();
  const { key, now, ready } = useAsked(stream.name);
  const whole = useAsked(stream.name, { whole: true });
  const column = measured(stream);
  const [all, setAll] = useState(false);
  const outside = () => {
    const { since, until, where } = whole.now();
    return { against_since: since, against_until: until, against_where: where ?? "" };
  };
  const found = useQuery({
    queryKey: ["compare", ...key, ...whole.key],
    queryFn: ({ signal }) => {
      const query = { ...now(), ...outside() };
      return data(api.GET("/api/v1/compare/{stream}", { params: { path: { stream: stream.name }, query }, signal }));
    },
    staleTime: Infinity,
    enabled: ready,
  });
  const range =
    column && selection.stream === stream.name && (selection.least !== undefined || selection.most !== undefined)
      ? `${quantity(selection.least ?? 0, column.unit)} – ${selection.most === undefined ? "∞" : quantity(selection.most, column.unit)}`
      : "";
  return (
    <section className="card brushed" aria-label={t`What differs`}>
      <div className="row">
        <h2>
          <Trans>What differs</Trans>
        </h2>
        <span className="soft">
          {clock(selection.since)} – {clock(selection.until)} {range && `· ${column?.name} ${range}`}
        </span>
      </div>
      <Shown of={found} height={260}>
        {(answer) => (
          <>
            <p className="soft">
              <Trans>
                {count(answer.inside.rows)} rows inside, {count(answer.outside.rows)} outside
              </Trans>
            </p>
            {!(answer.inside.complete && answer.outside.complete) && (
              <Partial>
                <Trans>
                  Compared by a sample: {count(answer.inside.read)} rows inside and {count(answer.outside.read)} outside were read.
                </Trans>
              </Partial>
            )}
            {answer.longer && <LongerTime longer={answer.longer} />}
            {waited(answer) && <Meanwhile selection={selection} />}
            {answer.columns.length === 0 ? (
              <Empty title={<Trans>No column differs</Trans>}>
                <Trans>The rows inside look like those outside in everything that is recorded.</Trans>
              </Empty>
            ) : (
              <div className="differences">
                {answer.columns.slice(0, all ? undefined : SHOWN).map((one) => (
                  <DifferenceCard key={one.column} difference={one} stream={stream} />
                ))}
              </div>
            )}
            {answer.columns.length > SHOWN && (
              <button type="button" onClick={() => setAll(!all)}>
                {all ? t`Fewer columns` : t`${answer.columns.length - SHOWN} hidden columns`}
              </button>
            )}
            {answer.stacks.map((stack) => (
              <div key={stack}>
                <h3>
                  <Trans>Where the time went inside, against outside</Trans>
                </h3>
                <FlamePicture stream={stream} query={{ ...now(), ...outside(), column: stack }} cacheKey={[...key, stack]} difference />
              </div>
            ))}
            {answer.samples && <Sampled of={stream} samples={answer.samples} query={{ ...now(), ...outside() }} cacheKey={key} />}
          </>
        )}
      </Shown>
    </section>
  );
}

const WAITED = /run_queue_ns$/; // how columns of waits for a CPU are named

/** Whether waits for a CPU are among what took longer. */
function waited({ longer, columns }: Comparison): boolean {
  if (longer) return longer.parts.some((part) => WAITED.test(part.column));
  return columns.slice(0, SHOWN).some(({ column, numbers }) => WAITED.test(column) && (numbers?.inside.p90 ?? 0) > (numbers?.outside.p90 ?? 0));
}

function DifferenceCard({ difference, stream }: { difference: ColumnDifference; stream: Stream }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const { numbers } = difference;
  const column = stream.columns.find((one) => one.name === difference.column);
  const told = (value: number | null) => (value === null ? "–" : quantity(value, difference.unit));
  return (
    <article className="difference">
      <h3 title={meaning(difference.meaning)}>
        {difference.column} <span className="badge">{share(difference.difference)}</span>{" "}
        {difference.sure < 0.95 && <span className="badge warn">{t`unsure`}</span>}
      </h3>
      <p className="soft clip" title={meaning(difference.meaning)}>
        {meaning(difference.meaning)}
      </p>
      <Cut all={difference.values} first={VALUES}>
        {(values) => (
          <table className="plain">
            <thead>
              <tr>
                <th />
                <th className="number">{t`inside`}</th>
                <th className="number">{t`outside`}</th>
              </tr>
            </thead>
            <tbody>
              {numbers
                ? (["p50", "p90", "p99"] as const).map((name) => (
                    <tr key={name}>
                      <td>{name}</td>
                      <td className="number">{told(numbers.inside[name])}</td>
                      <td className="number">{told(numbers.outside[name])}</td>
                    </tr>
                  ))
                : values.map(({ value, inside, outside }) => (
                    <tr key={String(value)}>
                      <td className="difference-value">
                        <span className="difference-bar" style={{ width: `${inside * 100}%` }} aria-hidden="true" />
                        <button
                          type="button"
                          className="quiet clip"
                          title={t`Show only these rows`}
                          disabled={!column}
                          onClick={() => column && change({ where: also(filterOf(search, stream), column, value) })}
                        >
                          {cell(value)}
                        </button>
                      </td>
                      <td className="number">{share(inside)}</td>
                      <td className="number">{share(outside)}</td>
                    </tr>
                  ))}
            </tbody>
          </table>
        )}
      </Cut>
    </article>
  );
}
