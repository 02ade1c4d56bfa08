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
  /** The row that is open, see `useOpen`. */
  row?: string;
  /** When the live tail was held. */
  paused?: string;
  /** Branches of a tree that are closed, separated by commas. */
  closed?: string;
  /** What is searched in flame graphs. */
  flame?: string;
  /** They are turned round, with the innermost functions first. */
  turned?: string;
  /** The function whose callers and callees they show. */
  function?: string;
  /** The frame that fills their width, see `placeOf`. */
  zoom?: string;
  /** What they are compared with, see `othersOf`. */
  against?: string;
  pid?: string;
  /** When the process of the pid began, in ns since boot: a pid alone may be of several, one after the other. */
  start?: string;
  /** A row that lasted, see `RequestName`. */
  request?: string;
  /** Whom a task that is started watches, and how: its options as JSON, its duration in seconds. */
  comm?: string;
  exe?: string;
  cgroup?: string;
  container?: string;
  options?: string;
  duration?: string;
  probe?: string;
  template?: string;
  next?: string;
  invitation?: string;
  with?: string;
}

/** What the bar on top of all screens sets: it is kept when the screen changes. */
const KEPT = ["since", "until", "machine", "where", "brushed"] as const;

/** What flame graphs keep in the address. */
export const FLAMES = ["flame", "turned", "function", "zoom"] as const;

/** Keeps what the bar sets, unless a link says otherwise. A selection is a part of its window: it ends with that. */
export const keeping: SearchMiddleware<Search> = ({ search: before, next }) => {
  const wanted = next(before);
  const kept = Object.fromEntries(KEPT.filter((name) => !(name in wanted)).map((name) => [name, before[name]]));
  const found: Search = { ...wanted, ...kept };
  const moved = found.since !== before.since || found.until !== before.until;
  return moved && found.brushed === before.brushed ? { ...found, brushed: undefined } : found;
};

/** What a route reads of its address, beside what the bar sets; anything else is left out, and ends when the screen changes. */
export function reads<Name extends keyof Search = never>(...own: Name[]) {
  type Read = Pick<Search, Name | (typeof KEPT)[number]>;
  const names: (keyof Search)[] = [...KEPT, ...own];
  const only: SearchMiddleware<Search> = ({ search, next }) => {
    const found = next(search);
    return Object.fromEntries(names.filter((name) => name in found).map((name) => [name, found[name]]));
  };
  const validateSearch = (given: Record<string, unknown>): Read => {
    const found = names.map((name) => [name, given[name]] as const).filter(([, value]) => ["string", "number"].includes(typeof value));
    return Object.fromEntries(found.map(([name, value]) => [name, String(value)])) as Read;
  };
  return { validateSearch, search: { middlewares: [only] } };
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
