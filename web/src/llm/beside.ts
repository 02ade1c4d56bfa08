import type { HttpRequest, Request } from "./llm.api";

type Spanning = Pick<HttpRequest, "machine_id" | "pid" | "start_ns" | "ktime_ns"> & { duration_ns: number | null };

/** The request over HTTP that a request to the model was a part of: the shortest of the same process that contains it. */
export function around<T extends Spanning>(request: Pick<Request, "machine_id" | "pid" | "start_ns" | "ktime_ns" | "duration_ns">, http: T[]): T | undefined {
  const [begin, end] = [request.ktime_ns, request.ktime_ns + (request.duration_ns ?? 0)];
  const containing = http.filter(
    (one) =>
      one.machine_id === request.machine_id &&
      one.pid === request.pid &&
      one.start_ns === request.start_ns &&
      one.ktime_ns <= begin &&
      end <= one.ktime_ns + (one.duration_ns ?? 0),
  );
  return containing.sort((one, other) => (one.duration_ns ?? 0) - (other.duration_ns ?? 0))[0];
}
