import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { type Row, runningOf } from "./running";

const WINDOW_S = 20; // several intervals of a summary of the scheduler
const READ = 1000; // rows, the newest: as many as the API answers at most
export const STREAM = "sched_process_summary";

/** What ran on a machine; with a filter, of what meets it. */
export const processes = (machine: string | undefined, where?: string) =>
  queryOptions({
    queryKey: ["processes", machine, where],
    queryFn: async ({ signal }) => {
      const since = new Date(Date.now() - WINDOW_S * 1000).toISOString();
      const query = { since, machine, where, limit: READ };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream: STREAM }, query }, signal });
      const { events, more } = await data(call);
      return runningOf(events as unknown as Row[], more);
    },
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
  });
