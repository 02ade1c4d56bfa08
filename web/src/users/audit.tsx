import { Trans, useLingui } from "@lingui/react/macro";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { cell, count, moment, visible } from "../parts/format";
import { Partial, Shown } from "../parts/states";
import { Table } from "../parts/table";

type Entry = components["schemas"]["AuditEntry"];

const PAGE = 100;

/** What people did, page by page, and whether the log is whole. */
export function Audit() {
  const { t } = useLingui();
  const [find, setFind] = useState("");
  const found = useInfiniteQuery({
    queryKey: ["audit", "entries"],
    initialPageParam: 0,
    queryFn: async ({ pageParam, signal }) => (await data(api.GET("/api/v1/audit", { params: { query: { before: pageParam || undefined, limit: PAGE } }, signal }))).entries,
    getNextPageParam: (last) => (last.length < PAGE ? undefined : last.at(-1)?.number),
  });
  const words = find.toLowerCase().split(/\s+/);
  const matches = (entry: Entry) => {
    const text = `${entry.actor} ${entry.address} ${entry.act} ${entry.object} ${detailOf(entry)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return (
    <section className="card scroll">
      <div className="row audit-head">
        <h2>
          <Trans>Audit log</Trans>
        </h2>
        <Verdict />
        <span className="spring" />
        <input type="search" aria-label={t`Find in what is loaded`} placeholder={t`who, act or object`} value={find} onChange={(event) => setFind(event.target.value)} />
        <button type="button" onClick={() => void found.refetch()} disabled={found.isFetching}>
          <Trans>Refresh</Trans>
        </button>
      </div>
      <Shown of={found} height={300}>
        {({ pages }) => {
          const loaded = pages.flat();
          const shown = loaded.filter(matches);
          return (
            <>
              <Table
                rows={shown}
                keyOf={(entry) => entry.number}
                fields={[
                  { name: t`Number`, number: true, show: (entry) => <span className="soft">{entry.number}</span> },
                  { name: t`When`, className: "audit-when", show: (entry) => moment(entry.time) },
                  { name: t`Who`, className: "break", show: (entry) => cell(entry.actor) },
                  { name: t`From`, show: (entry) => <span className="soft">{cell(entry.address)}</span> },
                  { name: t`Did`, className: "mono", show: (entry) => entry.act },
                  { name: t`To`, className: "break", show: (entry) => cell(entry.object) },
                  { name: t`Detail`, className: "break mono audit-detail", show: (entry) => <Detail text={detailOf(entry)} /> },
                ]}
              />
              <p className="row">
                {found.hasNextPage && (
                  <button type="button" disabled={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
                    <Trans>Older entries</Trans>
                  </button>
                )}
                <span className="soft">
                  {shown.length < loaded.length ? (
                    <Trans>
                      {count(shown.length)} of the {count(loaded.length)} that are loaded
                    </Trans>
                  ) : (
                    <Trans>{count(loaded.length)} are loaded</Trans>
                  )}
                </span>
              </p>
            </>
          );
        }}
      </Shown>
    </section>
  );
}

/** Whether an entry was removed or changed. */
function Verdict() {
  const verdict = useQuery({ queryKey: ["audit", "verdict"], queryFn: ({ signal }) => data(api.GET("/api/v1/audit/verdict", { signal })), staleTime: 60_000 }).data;
  if (!verdict) return;
  if (verdict.fault) {
    return (
      <Partial>
        <Trans>
          Only the first {count(verdict.entries)} entries are as they were written: {verdict.fault}
        </Trans>
      </Partial>
    );
  }
  return (
    <span className="badge good" title={verdict.digest}>
      <Trans>whole: {count(verdict.entries)} entries are as they were written</Trans>
    </span>
  );
}

const SHORT = 120; // characters of a detail that are shown at once

function Detail({ text }: { text: string }) {
  if (text.length <= SHORT) return text;
  return (
    <details>
      <summary>{text.slice(0, SHORT)}…</summary>
      {text}
    </details>
  );
}

/** What was asked, as `name=value`. */
function detailOf({ detail }: Entry): string {
  const told = Object.entries(detail).filter(([, value]) => value !== null);
  return visible(told.map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`).join(" "));
}
