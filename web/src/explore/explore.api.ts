import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { Row } from "../api/answers";
import { api, data } from "../api/client";
import { measured, type Stream } from "../api/columns";
import { useAddress } from "../parts/search";
import { asked, type Selection, selecting } from "../parts/times";

const PAGE = 200;

/** What a request of the stream's rows says of the page: the brushed part, or the whole window. */
export function useWindow(stream: Stream, selection: Selection | undefined) {
  const [search] = useAddress();
  const { machine, task, where, since, until } = search;
  const of = selection
    ? { since: selection.since.toISOString(), until: selection.until.toISOString(), where: selecting(selection, measured(stream)?.name, where) || undefined }
    : undefined;
  const key = of ? [stream.name, machine, task, of.where, of.since, of.until] : [stream.name, machine, task, where, since, until];
  const now = () => ({ ...(of ?? { ...asked(search), where }), machine, task });
  return { key, now };
}

/** Rows, newest first, page by page. */
export function useRows(stream: Stream, selection: Selection | undefined) {
  const { key, now } = useWindow(stream, selection);
  const found = useInfiniteQuery({
    queryKey: ["rows", ...key],
    initialPageParam: "",
    queryFn: async ({ pageParam, signal }) => {
      const given = now();
      const query = { ...given, limit: PAGE, cursor: pageParam || undefined };
      return data(api.GET("/api/v1/events/{stream}", { params: { path: { stream: stream.name }, query }, signal }));
    },
    getNextPageParam: (last) => last.next ?? undefined,
    staleTime: 30_000,
  });
  const rows = useMemo(() => (found.data?.pages ?? []).flatMap((page) => page.events as unknown as Row[]), [found.data]);
  return { ...found, rows };
}
