import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { useAddress } from "./search";
import { asked, isLive } from "./times";

type Answer = components["schemas"]["Losses"];
type Found = Pick<Answer, "losses" | "more" | "unrecorded">;

const NONE: Found = { losses: [], more: false, unrecorded: [] };

/** What was lost or not recorded in the page's window: of one stream, or of all; of one machine, or those of the page. */
export function useLosses(stream?: string, of?: string): Found {
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
  return found.data ?? NONE;
}
