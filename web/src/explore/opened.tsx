import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

import type { Row } from "../api/answers";
import { api, data } from "../api/client";
import type { Stream } from "../api/columns";
import { hashed } from "../parts/hash";
import { useAddress } from "../parts/search";
import { Details } from "./details";

const MOST = 1000; // rows of the same millisecond

/** Opens a row: the address says which. */
export function useOpen(stream: Stream | undefined): (row: Row) => void {
  const [, change] = useAddress();
  const queries = useQueryClient();
  return useCallback(
    (row: Row) => {
      if (!stream) return;
      const name = nameOf(stream, row);
      queries.setQueryData(["row", name], row);
      change({ row: name });
    },
    [stream, queries, change],
  );
}

/** The row that the address says is open, if it is one of this stream. */
export function OpenedRow({ stream }: { stream: Stream }) {
  const [search, change] = useAddress();
  const name = search.row?.startsWith(`${stream.name}~`) ? search.row : undefined;
  const row = useQuery({
    queryKey: ["row", name],
    queryFn: async ({ signal }) => {
      const [, machine = "", since = ""] = name?.split("~") ?? [];
      const query = { since, until: new Date(Date.parse(since) + 2).toISOString(), machine, limit: MOST };
      const { events } = await data(api.GET("/api/v1/events/{stream}", { params: { path: { stream: stream.name }, query }, signal }));
      return (events as unknown as Row[]).find((one) => nameOf(stream, one) === name) ?? null;
    },
    enabled: name !== undefined,
    staleTime: Infinity,
  }).data;
  return name && row ? <Details stream={stream} row={row} close={() => change({ row: undefined })} /> : null;
}

/** What tells a row from all others: rows have no number, and those of a summary have the same time. */
function nameOf(stream: Stream, row: Row): string {
  const values = stream.columns.map((column) => row[column.name]);
  return [stream.name, String(row.machine_id), String(row.time), hashed(JSON.stringify(values)).toString(36)].join("~");
}
