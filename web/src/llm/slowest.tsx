import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Row } from "../api/answers";
import { useStream } from "../api/catalogue";
import { measured } from "../api/columns";
import { json } from "../api/client";
import { Details } from "../explore/details";
import { cell, clock, quantity } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { asked, isLive } from "../parts/times";

interface Slow {
  rows: (Row & { differs?: { sentence?: string; column?: string; value?: unknown; median?: unknown }[] })[];
}

/** The rows that took the longest, each with what differs from the median one. */
export function Slowest({ stream: name, title }: { stream: string; title: string }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const [open, setOpen] = useState<Row>();
  const stream = useStream(name);
  const column = stream && measured(stream);
  const found = useQuery({
    queryKey: ["slowest", name, search.since, search.until, search.machine],
    queryFn: ({ signal }) => json<Slow>(`slowest/${name}`, { ...asked(search), machine: search.machine, limit: 10 }, signal),
    refetchInterval: isLive(search) && 30_000,
    placeholderData: (before) => before,
  });
  return (
    <section className="card scroll">
      <h2>{title}</h2>
      <Shown of={found} height={160}>
        {({ rows }) =>
          rows.length === 0 ? (
            <Empty title={<Trans>Nothing recorded in this window</Trans>} />
          ) : (
            <table className="plain">
              <thead>
                <tr>
                  <th>{t`When`}</th>
                  <th>{t`Program`}</th>
                  <th className="number">{t`took`}</th>
                  <th>{t`What differs from the median one`}</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row, number) => (
                  <tr key={number}>
                    <td>
                      <button type="button" className="quiet slow-time" onClick={() => setOpen(row)}>
                        {clock(String(row.time))}
                      </button>
                    </td>
                    <td>{cell(row.comm)}</td>
                    <td className="number">{quantity(Number(row[column?.name ?? ""] ?? 0), column?.unit ?? "")}</td>
                    <td className="break">{(row.differs ?? []).map((one) => one.sentence ?? `${one.column}: ${cell(one.value)} (${cell(one.median)})`).join("; ")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Shown>
      {open && stream && <Details stream={stream} row={open} close={() => setOpen(undefined)} />}
    </section>
  );
}
