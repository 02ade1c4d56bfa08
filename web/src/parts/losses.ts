import { useQuery } from "@tanstack/react-query";

import type { Loss } from "../api/answers";
import { api, data } from "../api/client";
import { useAddress } from "./search";
import { asked, isLive } from "./times";

/** A time on a chart at which rows are missing, or to which somebody wrote a note. */
export interface Mark {
  since: number;
  until: number;
  text: string;
  kind: "loss" | "note";
}

/** What was lost or not recorded in the page's window: of one stream, or of all. */
export function useLosses(stream?: string): { losses: Loss[]; more: boolean } {
  const [search] = useAddress();
  const { machine, since, until } = search;
  const found = useQuery({
    queryKey: ["losses", stream, machine, since, until],
    queryFn: ({ signal }) =>
      data(api.GET("/api/v1/losses", { params: { query: { ...asked(search), machine, stream } }, signal })),
    refetchInterval: isLive(search) && 10_000,
    placeholderData: (before) => before,
  });
  return { losses: found.data?.losses ?? [], more: found.data?.more ?? false };
}

/** Losses as marks of a chart. */
export function marksOf(losses: Loss[]): Mark[] {
  return losses.map((loss) => ({
    since: new Date(loss.since).getTime() / 1000,
    until: (loss.until ? new Date(loss.until).getTime() : Date.now()) / 1000,
    text: `${loss.count === null ? "" : loss.count.toLocaleString("en")} ${loss.reason} (${loss.place}, ${loss.hostname})`,
    kind: "loss",
  }));
}
