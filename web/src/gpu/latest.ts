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

/** GPUs with their newest samples. */
export interface Latest {
  devices: Device[];
  /** GPUs without a sample from then on are not among them. None: there is no such GPU. */
  since?: string;
}

/** What the newest samples of a window tell. `all` are the ids of its GPUs; undefined: nobody knows. */
export function latest(newestFirst: Device[], all: string[] | undefined): Latest {
  const devices = new Map([...newestFirst].reverse().map((row) => [row.uuid, row]));
  const complete = all?.every((uuid) => devices.has(uuid));
  return { devices: [...devices.values()], since: complete ? undefined : newestFirst.at(-1)?.time };
}
