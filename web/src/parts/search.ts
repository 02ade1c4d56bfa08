import { type SearchMiddleware, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

/** All state of a page: what its address says after `?`. Each screen reads what it needs, and the bar is kept. */
export interface Search {
  /** Length of a window that ends now, such as `1h`, or its begin, as ISO 8601. */
  since?: string;
  /** Its end, as ISO 8601; none: now. */
  until?: string;
  machine?: string;
  /** Several, by their ids, for a trace. */
  machines?: string;
  /** Instead of one machine: those with these labels, such as `env=prod,zone=a`. */
  labels?: string;
  task?: string;
  /** Tasks that were started together. */
  group?: string;
  /** The filter of all screens. */
  where?: string;
  /** The brushed part, see `Selection`. */
  brushed?: string;
  /** Which rows a task that is started records. */
  only?: string;
  view?: string;
  columns?: string;
  by?: string;
  column?: string;
  find?: string;
  zoom?: string;
  pid?: string;
  /** Of the process with this pid: its `start_ns`. */
  start?: string;
  probe?: string;
  template?: string;
  next?: string;
  invitation?: string;
  with?: string;
}

const NAMES: (keyof Search)[] = [
  "since", "until", "machine", "machines", "labels", "task", "group", "where", "brushed", "only", "view", "columns", "by", "column", "find",
  "zoom", "pid", "start", "probe", "template", "next", "invitation", "with",
]; // prettier-ignore

/** What the bar on top of all screens sets: it is kept when the screen changes. */
const KEPT = ["since", "until", "machine", "where", "brushed"] as const;

/** Keeps what the bar sets, unless a link says otherwise. A selection is a part of its window: it ends with that. */
export const keeping: SearchMiddleware<Search> = ({ search: before, next }) => {
  const wanted = next(before);
  const kept = Object.fromEntries(KEPT.filter((name) => !(name in wanted)).map((name) => [name, before[name]]));
  const found: Search = { ...wanted, ...kept };
  const moved = found.since !== before.since || found.until !== before.until;
  return moved && found.brushed === before.brushed ? { ...found, brushed: undefined } : found;
};

/** The known parameters of an address; anything else is left out. */
export function readSearch(given: Record<string, unknown>): Search {
  const found = NAMES.map((name) => [name, given[name]] as const).filter(
    ([, value]) => typeof value === "string" || typeof value === "number",
  );
  return Object.fromEntries(found.map(([name, value]) => [name, String(value)]));
}

/** What the address says, and how to change it: undefined removes a parameter. */
export function useAddress(): [Search, (change: Partial<Search>, replace?: boolean) => void] {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const change = useCallback(
    (changes: Partial<Search>, replace = false) =>
      void navigate({ to: ".", search: (before: Search) => ({ ...before, ...changes }), replace }),
    [navigate],
  );
  return [search, change];
}
