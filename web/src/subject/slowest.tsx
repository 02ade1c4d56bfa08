import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { Row } from "../api/answers";
import { useStream } from "../api/catalogue";
import { json } from "../api/client";
import { kindOf, ordered } from "../api/columns";
import { OpenedRow, useOpen } from "../explore/opened";
import { useAsked } from "../parts/asked";
import { cell, cellOf, clock, duration, visible } from "../parts/format";
import { whyOf } from "../parts/request";
import { said } from "../parts/said";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { UNUSUAL } from "./unusual";

interface Slow {
  duration: string;
  complete: boolean;
  slowest: { row: Row; longer_ns: number; differs: { column: string; sentence: string }[] }[];
}

/** The rows that took the longest, each with what differs from the median one. */
export function Slowest({ stream: name, title }: { stream: string; title: string }) {
  const { t, i18n } = useLingui();
  const { key, now, live, ready } = useAsked(name, { card: title });
  const stream = useStream(name);
  const open = useOpen(stream);
  const names = stream ? [...stream.rollup.by.map((by) => stream.columns.find((one) => one.name === by)), ...ordered(stream)] : [];
  const named = names.find((one) => one && kindOf(one) === "text" && !one.stack && one.name !== "comm");
  const found = useQuery({
    queryKey: ["slowest", ...key],
    queryFn: ({ signal }) => json<Slow>(`slowest/${name}`, { ...now(), limit: 10 }, signal),
    enabled: ready,
    refetchInterval: live && 30_000,
    placeholderData: (before) => before,
  });
  return (
    <section className="card scroll">
      <h2>{title}</h2>
      <Shown of={found} height={160}>
        {({ slowest, duration: column }) =>
          slowest.length === 0 ? (
            <Empty title={<Trans>Nothing recorded in this window</Trans>} />
          ) : (
            <Table
              rows={slowest}
              keyOf={(_, number) => number}
              fields={[
                {
                  name: t`When`,
                  show: ({ row }) => (
                    <button type="button" className="quiet slow-time" onClick={() => open(row)}>
                      {clock(String(row.time))}
                    </button>
                  ),
                },
                { name: t`Program`, show: ({ row }) => cell(row.comm) },
                named !== undefined && { name: named.name, className: "break mono", show: ({ row }) => cellOf(row, named) },
                { name: t`took`, number: true, show: ({ row, longer_ns }) => <>{duration(Number(row[column] ?? 0))} <span className="soft">+{duration(longer_ns)}</span></> },
                { name: t`What differs from the median one`, className: "break", show: ({ differs }) => differs.map((one) => visible(said(i18n, one.sentence, UNUSUAL))).join("; ") || "–" },
                {
                  show: ({ row }) => {
                    const why = whyOf(name, row);
                    return why && <Link to="/why" search={why}>{t`Why?`}</Link>;
                  },
                },
              ]}
            />
          )
        }
      </Shown>
      {stream && <OpenedRow stream={stream} />}
    </section>
  );
}
