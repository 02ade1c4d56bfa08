import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { useStream } from "../api/catalogue";
import { Bars } from "./bars";
import { toldCell, usualCell } from "./cells";
import { also, both } from "./complete";
import { filterOf } from "./grammar";
import { useTotals } from "./series";
import { Empty, Shown } from "./states";

const SHOWN = 10;

interface Props {
  title: string;
  stream: string;
  by: string;
  /** What ranks the groups; none: the sum of the measured column. */
  cell?: string;
  where?: string;
}

/** The first groups of a stream as a card; each leads to its rows. */
export function Top({ title, stream: name, by, cell, where }: Props) {
  const stream = useStream(name);
  const shown = cell ?? (stream ? usualCell(stream) : "count");
  const told = toldCell(shown, stream);
  const totals = useTotals({ stream: name, by: [by], cells: [shown], where, top: SHOWN + 1, card: title }, stream !== undefined);
  const column = stream?.columns.find((one) => one.name === by);
  const failed = cell === "failed";
  return (
    <section className="card">
      <h2>{title}</h2>
      <Shown of={totals} height={240}>
        {({ groups }) => {
          const ranked = groups.filter((group) => (group.values[shown] ?? 0) > 0);
          return ranked.length === 0 ? (
            <Empty title={failed || where ? <Trans>None in this window</Trans> : <Trans>Nothing recorded in this window</Trans>}>
              {!failed && !where && stream && (
                <Link to="/start" search={{ probe: stream.probe }}>
                  <Trans>Start the probe {stream.probe}</Trans>
                </Link>
              )}
            </Empty>
          ) : (
            <>
              <Bars
                bars={ranked.slice(0, SHOWN).map((group) => {
                  const value = group.values[shown] ?? 0;
                  return {
                    name: String(group.key[by] ?? "–"),
                    value,
                    told: told(value),
                    link: (told) => (
                      <Link to="/explore/$stream" params={{ stream: name }} search={(before) => ({ ...before, where: column && also(both(filterOf(before, stream), failed ? stream?.failed : where), column, group.key[by]) })}>
                        {told}
                      </Link>
                    ),
                  };
                })}
              />
              {ranked.length > SHOWN && (
                <Link to="/explore/$stream" params={{ stream: name }} search={(before) => ({ ...before, view: "groups", by, where: both(filterOf(before, stream), failed ? stream?.failed : where) })} className="soft">
                  <Trans>More are hidden: show all groups</Trans>
                </Link>
              )}
            </>
          );
        }}
      </Shown>
    </section>
  );
}
