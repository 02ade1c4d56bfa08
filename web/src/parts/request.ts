import type { Search } from "./search";

/** A row that lasted, such as a request, in an address: its stream, time and process. */
export interface RequestName {
  stream: string;
  /** RFC 3339, to the nanosecond. */
  time: string;
  pid: number;
}

/** The address of `/why` of a row; undefined: it belongs to no process. */
export function whyOf(stream: string, row: { time?: unknown; pid?: unknown; machine_id?: unknown }): Pick<Search, "request" | "machine"> | undefined {
  if (typeof row.pid !== "number") return;
  return { request: [stream, String(row.time), row.pid].join("~"), machine: String(row.machine_id) };
}

export function readRequest(text: string | undefined): RequestName | undefined {
  const [stream, time, pid] = (text ?? "").split("~");
  if (!stream || !time || !Number(pid) || Number.isNaN(Date.parse(time))) return;
  return { stream, time, pid: Number(pid) };
}

/** What the API is asked for: the microsecond of the row. By `ktime_ns` it would not be found, if a browser has rounded it. */
export function askedOf({ stream, time, pid }: RequestName): { stream: string; where: string; since: string; until: string } {
  const [whole = "", fraction = ""] = time.replace("Z", "").split(".");
  const micros = BigInt(Date.parse(`${whole}Z`)) * 1000n + BigInt(fraction.padEnd(6, "0").slice(0, 6));
  return { stream, where: `pid = ${pid}`, since: rfc3339(micros), until: rfc3339(micros + 1n) };
}

function rfc3339(micros: bigint): string {
  const millis = new Date(Number(micros / 1000n)).toISOString();
  return millis.replace("Z", `${String(micros % 1000n).padStart(3, "0")}Z`);
}
