import { useQuery } from "@tanstack/react-query";

import type { Loss } from "../api/answers";
import { api, data } from "../api/client";
import { useAddress } from "./search";
import { asked, isLive } from "./times";

/** What was lost or not recorded in the page's window: of one stream, or of all; of one machine, or those of the page. */
export function useLosses(stream?: string, of?: string): { losses: Loss[]; more: boolean } {
  const [search] = useAddress();
  const { since, until } = search;
  const machine = of ?? search.machine;
  const found = useQuery({
    queryKey: ["losses", stream, machine, since, until],
    queryFn: ({ signal }) =>
      data(api.GET("/api/v1/losses", { params: { query: { ...asked(search), machine, stream } }, signal })),
    refetchInterval: isLive(search) && 10_000,
    placeholderData: (before) => before,
  });
  return { losses: found.data?.losses ?? [], more: found.data?.more ?? false };
}
