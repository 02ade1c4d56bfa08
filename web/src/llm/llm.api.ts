import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { useAsked } from "../parts/asked";
import { useTotals } from "../parts/series";
import { tokensOf } from "./tokens";

/** What rows of a process have in common. */
interface OfProcess {
  time: string;
  ktime_ns: number;
  machine_id: string;
  hostname: string;
  pid: number;
  start_ns: number;
  comm: string;
}

/** A row of `llama_request`. */
export interface Request extends OfProcess {
  request: number;
  duration_ns: number | null;
  ttft_ns: number | null;
  token_rate: number | null;
  prompt_tokens: number;
  cached_tokens: number;
  generated_tokens: number;
  ended: string;
}

/** A row of `ollama_request`. */
export interface HttpRequest extends OfProcess {
  method: string | null;
  path: string | null;
  status: number | null;
  duration_ns: number;
  first_body_ns: number | null;
  longest_gap_ns: number | null;
  request_bytes: number;
  response_bytes: number;
  request: number;
  ended: string;
}

/** A row of `ollama_model`. */
export interface Model extends OfProcess {
  path: string;
  duration_ns: number;
  file_bytes: number;
}

/** The newest rows of a stream in the window. */
export function useNewest<T>(stream: string, limit: number) {
  const { key, now, live, ready } = useAsked(stream);
  return useQuery({
    queryKey: ["newest", limit, ...key],
    queryFn: async ({ signal }) => {
      const query = { ...now(), limit };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream }, query }, signal });
      return (await data(call)).events as unknown as T[];
    },
    enabled: ready,
    refetchInterval: live && 10_000,
    placeholderData: (before) => before,
  });
}

const [USUAL, LONGEST] = ["p99(duration_ns)", "max(duration_ns)"];

/** The 99th percentile and the longest of the times between a request's tokens. */
export interface Gaps {
  p99_ns: number;
  longest_ns: number;
}

const MOST = 100; // groups that the API answers at most

/** The gaps of requests, by `keyOf`. The first token of a request follows none. `cut`: those of some may not be among them. */
export function useGaps(requests: Request[] = []): { gaps: ReadonlyMap<string, Gaps>; cut: boolean } {
  const where = `draft = 0 and number > 0 and (${tokensOf(requests)})`;
  const found = useTotals({ stream: "llama_token", by: ["machine", "pid", "request"], cells: [LONGEST, USUAL], top: MOST, where }, requests.length > 0);
  const groups = found.data?.groups ?? [];
  const gaps = new Map(
    groups.map(({ key, values }) => [
      keyOf({ machine_id: String(key.machine_id), pid: Number(key.pid), request: Number(key.request) }),
      { p99_ns: Number(values[USUAL] ?? 0), longest_ns: Number(values[LONGEST] ?? 0) },
    ]),
  );
  return { gaps, cut: groups.length === MOST && requests.some((one) => !gaps.has(keyOf(one))) };
}

export function keyOf({ machine_id, pid, request }: Pick<Request, "machine_id" | "pid" | "request">): string {
  return `${machine_id} ${pid} ${request}`;
}
