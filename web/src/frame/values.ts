import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { type Compared, kindOf, type Stream } from "../api/columns";
import { useAddress } from "../parts/search";
import { asked } from "../parts/times";

const MOST = 20;

/** The values of a text column that are most frequent in the page's window, in the first of these streams that has it. */
export function useValues(column: Compared | undefined, among: Stream[]): string[] {
  const [search] = useAddress();
  const stream = column && kindOf(column) === "text" ? among.find((one) => one.columns.some(({ name }) => name === column.name)) : undefined;
  const { since, until, machine } = search;
  const found = useQuery({
    queryKey: ["values", stream?.name, column?.name, since, until, machine],
    queryFn: async ({ signal }) => {
      const by = column?.name ?? "";
      const query = { ...asked(search), machine, by, cells: "count", top: MOST };
      const { groups } = await data(api.GET("/api/v1/aggregates/{stream}", { params: { path: { stream: stream?.name ?? "" }, query }, signal }));
      return groups.map((group) => group.key[by]).filter((value) => typeof value === "string");
    },
    enabled: stream !== undefined,
    staleTime: 60_000,
    retry: false,
  });
  return found.data ?? [];
}
