import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { useAsked } from "../parts/asked";
import { type Device, latest } from "./latest";

const READ = 200; // samples
const MOST = 1000; // GPUs that the API answers at most
const HOUR_MS = 3_600_000;

/** The newest sample of each GPU in the window: of one machine, or those of the page. */
export function useLatestDevices(machine?: string) {
  const { key, now, times, live, ready } = useAsked("gpu", { machine });
  return useQuery({
    queryKey: ["gpus", ...key],
    queryFn: async ({ signal }) => {
      const asked = now();
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream: "gpu" }, query: { ...asked, limit: READ } }, signal });
      const { events, more } = await data(call);
      const rows = events as unknown as Device[];
      if (!more) return latest(rows, []);
      return latest(rows, live && !asked.where && !asked.task ? await sampled(times().since, asked.machine, signal) : undefined);
    },
    enabled: ready,
    refetchInterval: live && 10_000,
  });
}

/** The ids of the GPUs that were sampled since then. */
async function sampled(since: Date, node: string | undefined, signal: AbortSignal): Promise<string[]> {
  const query = { node, hours: Math.ceil((Date.now() - since.getTime()) / HOUR_MS), limit: MOST };
  const { groups } = await data(api.GET("/api/v1/states/{stream}", { params: { path: { stream: "gpu" }, query }, signal }));
  return (groups as unknown as Device[]).filter((one) => new Date(one.time) >= since).map((one) => one.uuid);
}
