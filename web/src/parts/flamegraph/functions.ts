import type { Frames } from "./frames";

export interface Function {
  label: number;
  total: number;
  self: number;
}

/** Functions by their own time; in the total, a recursive one counts once a stack. */
export function functions(frames: Frames): Function[] {
  const total = new Float64Array(frames.labels.length);
  const self = new Float64Array(frames.labels.length);
  const until = new Int32Array(frames.labels.length); // the end of the outermost frame that is open
  const present = new Uint8Array(frames.labels.length);
  for (let index = 1; index < frames.count; index += 1) {
    const label = frames.label[index] ?? 0;
    present[label] = 1;
    self[label] = (self[label] ?? 0) + (frames.self[index] ?? 0);
    if (index < (until[label] ?? 0)) continue;
    until[label] = frames.end[index] ?? 0;
    total[label] = (total[label] ?? 0) + (frames.value[index] ?? 0);
  }
  const found: Function[] = [];
  present.forEach((is, label) => is && found.push({ label, total: total[label] ?? 0, self: self[label] ?? 0 }));
  return found.sort((one, other) => other.self - one.self);
}
