import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Row } from "../api/answers";
import { api, data } from "../api/client";
import type { Stream } from "../api/columns";
import { useLive } from "../api/live";
import { filterOf } from "../parts/grammar";
import { count } from "../parts/format";
import { Rows } from "../parts/rows";
import { useAddress } from "../parts/search";
import { Empty, Partial } from "../parts/states";
import { isLive } from "../parts/times";
import { chosen } from "./columns";

const HELD = 1000; // rows of a tail that was held, and loaded again

interface Props {
  stream: Stream;
  onOpen: (row: Row) => void;
}

/** Rows as they are stored, if the page's window ends now. */
export function LiveRows(props: Props) {
  const [search, change] = useAddress();
  if (isLive(search)) return <Tail {...props} />;
  return (
    <Empty title={<Trans>The chosen time is over</Trans>}>
      <button type="button" onClick={() => change({ since: undefined, until: undefined, brushed: undefined })}>
        <Trans>Show the rows of now</Trans>
      </button>
    </Empty>
  );
}

function Tail({ stream, onOpen }: Props) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const [held, setHeld] = useState<Row[]>();
  const { paused } = search;
  const before = usePaused(stream, held ? undefined : paused);
  const live = useLive(stream.name, { where: filterOf(search, stream), machine: search.machine, task: search.task });
  const rows = paused ? (held ?? before) : live.rows;
  return (
    <>
      <div className="row">
        <button
          type="button"
          aria-pressed={Boolean(paused)}
          onClick={() => {
            setHeld(paused ? undefined : live.rows);
            change({ paused: paused ? undefined : endOf(live.rows) }, true);
          }}
        >
          {paused ? t`Go on` : t`Pause`}
        </button>
        <span className="soft" role="status" data-live={live.state}>
          {live.state === "open" ? t`${count(rows.length)} newest rows` : live.state === "away" ? t`connecting again …` : t`connecting …`}
        </span>
      </div>
      {live.missed > 0 && (
        <Partial>
          <Trans>{count(live.missed)} rows came faster than this page takes them. They are stored.</Trans>
        </Partial>
      )}
      {live.problem && <Partial>{live.problem}</Partial>}
      <Rows label={t`Newest rows of ${stream.name}`} rows={rows} columns={chosen(stream, search)} onOpen={onOpen} />
    </>
  );
}

/** The newest rows before the tail was paused: of a page that was loaded since. */
function usePaused(stream: Stream, paused: string | undefined): Row[] {
  const [search] = useAddress();
  const where = filterOf(search, stream);
  const found = useQuery({
    queryKey: ["paused", stream.name, search.machine, search.task, where, paused],
    queryFn: async ({ signal }) => {
      const query = { until: paused, where, machine: search.machine, task: search.task, limit: HELD };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream: stream.name }, query }, signal });
      return (await data(call)).events as unknown as Row[];
    },
    enabled: paused !== undefined,
    staleTime: Infinity,
  });
  return found.data ?? [];
}

/** Just after the newest of these rows, so that those after it, which are stored but not shown yet, are left out. */
function endOf(rows: Row[]): string {
  const newest = rows.reduce((most, row) => Math.max(most, Date.parse(String(row.time))), 0);
  return new Date(newest ? newest + 1 : Date.now()).toISOString();
}
