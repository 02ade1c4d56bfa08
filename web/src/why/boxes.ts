import type { components } from "../api/schema";

type Lane = components["schemas"]["Lane"];

export const KINDS = ["blocked", "queue", "cpu"] as const; // from the bottom of a lane to its top
export type Kind = (typeof KINDS)[number];

/** A part of a step of a thread, in pixels. */
export interface Box {
  kind: Kind;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The times of a thread in a step, in ns. */
export function timesAt(lane: Lane, step: number): Record<Kind, number> {
  return { blocked: lane.blocked_ns[step] ?? 0, queue: lane.run_queue_ns[step] ?? 0, cpu: lane.on_cpu_ns[step] ?? 0 };
}

/** Lanes below each other; in each step, the parts are stacked, and as high as their share of the step. */
export function boxes(lanes: Lane[], stepNs: number, width: number, lane: { height: number; gap: number }): Box[] {
  return lanes.flatMap((one, number) => {
    const steps = one.on_cpu_ns.length;
    const bottom = (number + 1) * (lane.height + lane.gap) - lane.gap;
    return one.on_cpu_ns.flatMap((_, step) => {
      const times = timesAt(one, step);
      const whole = Math.max(stepNs, times.blocked + times.queue + times.cpu); // steps may differ by a ns
      let y = bottom;
      return KINDS.filter((kind) => times[kind] > 0).map((kind) => {
        const height = (times[kind] / whole) * lane.height;
        y -= height;
        return { kind, x: (step / steps) * width, y, width: width / steps, height };
      });
    });
  });
}
