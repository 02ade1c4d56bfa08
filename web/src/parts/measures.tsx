import { Trans } from "@lingui/react/macro";
import { useMemo } from "react";

import { useStream } from "../api/catalogue";
import { isSum, rateOf } from "./cells";
import { Chart } from "./chart";
import { useMarks } from "./marks";
import { linesOf } from "./points";
import { useAddress } from "./search";
import { useTotals } from "./series";
import { Empty, Shown } from "./states";
import { seconds, step, timesOf } from "./times";

interface Props {
  title: string;
  stream: string;
  /** Cells of one unit, such as `mean(user_percent)`, with their names. */
  cells: { cell: string; name: string }[];
  machine?: string;
  where?: string;
  stacked?: boolean;
}

/** Several cells of a stream over time, as a card. */
export function Measures({ title, stream: name, cells, machine, where, stacked }: Props) {
  const [search] = useAddress();
  const stream = useStream(name);
  const marks = useMarks(name, machine);
  const found = useTotals({ stream: name, cells: cells.map((one) => one.cell), top: 1, series: true, where, machine, card: title });
  const every = seconds(step(timesOf(search))) ?? 60;
  const first = cells[0]?.cell ?? "";
  const { factor, told } = rateOf(first, stream, every);
  const group = found.data?.groups[0];
  const { times, lines } = useMemo(
    () => linesOf(group ? cells.map(({ cell, name }) => ({ name, cell, group })) : [], every, factor, isSum(first) ? 0 : null),
    [group, cells, first, every, factor],
  );
  const { since, until } = timesOf(search);
  return (
    <section className="card">
      <h2>{title}</h2>
      <Shown of={found} height={210}>
        {() =>
          times.length === 0 ? (
            <Empty title={<Trans>Nothing recorded in this window</Trans>} />
          ) : (
            <Chart label={title} times={times} lines={lines} marks={marks} format={told} stacked={stacked} since={since.getTime() / 1000} until={until.getTime() / 1000} />
          )
        }
      </Shown>
    </section>
  );
}
