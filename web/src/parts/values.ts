import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { api, data } from "../api/client";
import { type Column, kindOf } from "../api/columns";
import type { Completion } from "./complete";
import { useAddress } from "./search";
import { asked } from "./times";

const MOST = 20;
const PAUSE_MS = 250; // after which who types is taken to wait for values

interface Having {
  name: string;
  columns: Pick<Column, "name">[];
}

interface Values {
  values: string[];
  /** There are more. */
  more: boolean;
}

const NONE: Values = { values: [], more: false };

/**
 * The values of a text column that are most frequent in the page's window, in the first of these streams that has it: those
 * that contain what is written.
 */
export function useValues(of: Completion["of"], among: Having[]): Values {
  const [search] = useAddress();
  const column = of?.column;
  const written = useSettled(of?.written ?? "");
  const stream = column && kindOf(column) === "text" ? among.find((one) => one.columns.some(({ name }) => name === column.name)) : undefined;
  const { since, until, machine } = search;
  const found = useQuery({
    queryKey: ["values", stream?.name, column?.name, since, until, machine, written],
    queryFn: async ({ signal }) => {
      const by = column?.name ?? "";
      const query = { ...asked(search), machine, by, cells: "count", top: MOST + 1, where: written ? `${by} ~ ${containing(written)}` : undefined };
      const { groups } = await data(api.GET("/api/v1/aggregates/{stream}", { params: { path: { stream: stream?.name ?? "" }, query }, signal }));
      return { values: groups.slice(0, MOST).map((group) => group.key[by]).filter((value) => typeof value === "string"), more: groups.length > MOST };
    },
    enabled: stream !== undefined,
    staleTime: 60_000,
    retry: false,
    placeholderData: (before, last) => (last?.queryKey[1] === stream?.name && last?.queryKey[2] === column?.name ? before : undefined),
  });
  return found.data ?? NONE;
}

/** A pattern of texts that contain this one, as the grammar takes it. */
function containing(text: string): string {
  return `'*${text.replace(/[*?\\]/g, "\\$&").replaceAll("'", "''")}*'`;
}

/** A text, as soon as it has been the same for a moment. */
function useSettled(text: string): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
