import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { Row } from "../api/answers";
import { api, data } from "../api/client";
import type { Stream } from "../api/columns";
import { useAsked } from "../parts/asked";

const PAGE = 200;

/** Rows, newest first, page by page. */
export function useRows(stream: Stream) {
  const { key, now, ready } = useAsked(stream.name);
  const found = useInfiniteQuery({
    queryKey: ["rows", ...key],
    initialPageParam: "",
    queryFn: async ({ pageParam, signal }) => {
      const query = { ...now(), limit: PAGE, cursor: pageParam || undefined };
      return data(api.GET("/api/v1/events/{stream}", { params: { path: { stream: stream.name }, query }, signal }));
    },
    getNextPageParam: (last) => last.next ?? undefined,
    staleTime: 30_000,
    enabled: ready,
  });
  const rows = useMemo(() => (found.data?.pages ?? []).flatMap((page) => page.events as unknown as Row[]), [found.data]);
  return { ...found, rows };
}
