import { Trans, useLingui } from "@lingui/react/macro";
import { useMemo } from "react";

import { Chart } from "../parts/chart";
import { duration } from "../parts/format";
import { useMarks } from "../parts/marks";
import { linesOf } from "../parts/points";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { seconds, step, timesOf } from "../parts/times";
import { useTokenTime, WHOLE } from "./tokentime.api";

const MEAN = "mean";
const LINES = 7;

type Values = Record<string, number | null>;

/** Where the mean token's time goes, step by step. */
export function TokenTimeOver() {
  const { t } = useLingui();
  const [search] = useAddress();
  const marks = useMarks("llama_token");
  const { found, parts } = useTokenTime();
  const every = seconds(step(timesOf(search))) ?? 60;
  const { times, lines } = useMemo(() => {
    const points = found.data?.groups[0]?.points ?? [];
    const drawn = parts.slice(0, LINES);
    const line = (name: string, sum: (values: Values) => number) => ({
      name,
      cell: MEAN,
      group: { points: points.map(({ time, values }) => ({ time, values: { [MEAN]: values.count ? sum(values) / values.count : null } })) },
    });
    const others = (values: Values) => Math.max(0, drawn.reduce((left, part) => left - Number(values[part.cell] ?? 0), Number(values[WHOLE] ?? 0)));
    const lines = drawn.map((part) => line(part.name, (values) => Number(values[part.cell] ?? 0)));
    return linesOf(points.length ? [...lines, line(t`others`, others)] : [], every, 1, null);
  }, [found.data, parts, every, t]);
  const { since, until } = timesOf(search);
  return (
    <section className="card">
      <h2>
        <Trans>A token's mean time, by what it went to</Trans>
      </h2>
      <Shown of={found} height={230}>
        {() =>
          times.length === 0 ? (
            <Empty title={<Trans>No tokens in this window</Trans>} />
          ) : (
            <Chart label={t`A token's mean time`} times={times} lines={lines} marks={marks} format={duration} height={200} stacked since={since.getTime() / 1000} until={until.getTime() / 1000} />
          )
        }
      </Shown>
    </section>
  );
}
