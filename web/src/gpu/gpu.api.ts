import { queryOptions } from "@tanstack/react-query";

import { api, data } from "../api/client";
import type { Search } from "../parts/search";
import { asked, isLive } from "../parts/times";

/** A row of the stream `gpu`. */
export interface Device {
  hostname: string;
  time: string;
  device: number;
  uuid: string;
  name: string;
  gpu_percent: number | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  temperature_celsius: number | null;
  power_watts: number | null;
  slowed_by: string | null;
}

/** The newest sample of each GPU in the window. */
export const latestDevices = (search: Search) =>
  queryOptions({
    queryKey: ["gpus", search.since, search.until, search.machine],
    queryFn: async ({ signal }) => {
      const query = { ...asked(search), machine: search.machine, limit: 200 };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream: "gpu" }, query }, signal });
      const rows = (await data(call)).events as unknown as Device[];
      return [...new Map(rows.reverse().map((row) => [row.uuid, row])).values()];
    },
    refetchInterval: isLive(search) && 10_000,
  });
