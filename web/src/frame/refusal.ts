import { notifyManager, type QueryCache, useQueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";

import { ApiError } from "../api/problem";

/** What the server says of the filter, whichever question of the screen it refused; empty: nothing. */
export function useRefusal(): string {
  const cache = useQueryClient().getQueryCache();
  return useSyncExternalStore(
    (tell) => cache.subscribe(notifyManager.batchCalls(tell)),
    () => refusalIn(cache),
  );
}

function refusalIn(cache: QueryCache): string {
  for (const query of cache.getAll()) {
    const { error } = query.state;
    const said = error instanceof ApiError && query.isActive() ? error.of("where") : "";
    if (said) return said;
  }
  return "";
}
