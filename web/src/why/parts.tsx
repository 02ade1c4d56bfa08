import { Trans } from "@lingui/react/macro";

import { Bars } from "../parts/bars";
import { bytes, count, duration } from "../parts/format";

interface Part {
  name: string;
  ns: number;
  count?: number;
  bytes?: number;
  failed?: number;
}

/** A ranking by time of one kind of thing that a process did. */
export function Parts({ title, rows }: { title: string; rows: Part[] }) {
  const told = (row: Part) => {
    const more = [row.count === undefined ? "" : `${count(row.count)}×`, row.bytes === undefined ? "" : bytes(row.bytes), row.failed ? `${count(row.failed)} ✗` : ""];
    return [...more.filter(Boolean), duration(row.ns)].join(" · ");
  };
  return (
    <section className="card">
      <h2>{title}</h2>
      {rows.length === 0 ? (
        <p className="soft">
          <Trans>None recorded.</Trans>
        </p>
      ) : (
        <Bars bars={rows.map((row) => ({ name: row.name, value: row.ns, told: told(row) }))} />
      )}
    </section>
  );
}
