import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { useAsked } from "../parts/asked";

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

/** The newest sample of each GPU in the window: of one machine, or those of the page. */
export function useLatestDevices(machine?: string) {
  const { key, now, live, ready } = useAsked("gpu", { machine });
  return useQuery({
    queryKey: ["gpus", ...key],
    queryFn: async ({ signal }) => {
      const query = { ...now(), limit: 200 };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream: "gpu" }, query }, signal });
      const rows = (await data(call)).events as unknown as Device[];
      return [...new Map(rows.reverse().map((row) => [row.uuid, row])).values()];
    },
    enabled: ready,
    refetchInterval: live && 10_000,
  });
}
