import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { useStream } from "../api/catalogue";
import { isSum, rateOf, usualCell } from "./cells";
import { Chart } from "./chart";
import { both } from "./complete";
import { cell as shown } from "./format";
import { filterOf } from "./grammar";
import { useMarks } from "./marks";
import { useAddress } from "./search";
import { linesOf, rest } from "./points";
import { type Group, useTotals } from "./series";
import { Empty, Partial, Shown } from "./states";
import { seconds, step, timesOf } from "./times";

interface Props {
  title: string;
  stream: string;
  by: string;
  /** None: the sum of the measured column. */
  cell?: string;
  where?: string;
  /** None: that of the page. */
  machine?: string;
  /** Areas on top of each other: their height is the sum. */
  stacked?: boolean;
}

const LINES = 6;

/** The first groups of a stream over time, as a card. */
export function Lines({ title, stream: name, by, cell, where, machine, stacked }: Props) {
  const { t } = useLingui();
  const [search] = useAddress();
  const stream = useStream(name);
  const marks = useMarks(name, machine);
  const drawn = cell ?? (stream ? usualCell(stream) : "count");
  const totals = useTotals({ stream: name, by: by.split(","), cells: [drawn], top: LINES + 1, series: true, where, machine, card: title }, stream !== undefined);
  const whole = useTotals({ stream: name, cells: [drawn], top: 1, series: true, where, machine, card: title }, stacked === true && isSum(drawn) && stream !== undefined).data?.groups[0];
  const every = seconds(step(timesOf(search))) ?? 60;
  const { factor, told } = rateOf(drawn, stream, every);
  const groups = useMemo(() => totals.data?.groups.slice(0, LINES), [totals.data]);
  const hidden = (totals.data?.groups.length ?? 0) > LINES && !(stacked === true && isSum(drawn)); // others are an area
  const { times, lines } = useMemo(
    () => linesOf([...(groups ?? []).map((group) => ({ name: nameOf(group), cell: drawn, group })), ...rest(groups, whole, drawn, t`others`)], every, factor, isSum(drawn) ? 0 : null),
    [groups, whole, drawn, factor, every, t],
  );
  const { since, until } = timesOf(search);
  return (
    <section className="card">
      <h2>{title}</h2>
      {totals.data?.complete === false && (
        <Partial>
          <Trans>Of the newest rows only: the window has too many.</Trans>
        </Partial>
      )}
      <Shown of={totals} height={210}>
        {() =>
          lines.length === 0 ? (
            <Empty title={<Trans>Nothing recorded in this window</Trans>} />
          ) : (
            <>
              <Chart
                label={title}
                times={times}
                lines={lines}
                marks={marks}
                format={told}
                stacked={stacked}
                since={since.getTime() / 1000}
                until={until.getTime() / 1000}
              />
              {hidden && (
                <Link to="/explore/$stream" params={{ stream: name }} search={(before) => ({ ...before, view: "groups", by, where: both(filterOf(before, stream), where) })} className="soft">
                  <Trans>More are hidden: show all groups</Trans>
                </Link>
              )}
            </>
          )
        }
      </Shown>
    </section>
  );
}

function nameOf({ key }: Group): string {
  const told = Object.entries(key).filter(([name]) => name !== "machine_id"); // its hostname is there, too
  return told.map(([, value]) => shown(value)).join(" ");
}
