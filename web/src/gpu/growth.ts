/** What is held of something at a time: seconds since 1970, and the least and most bytes of the step that begins then. */
export interface Held {
  at: number;
  least: number;
  most: number;
}

export interface Growth {
  /** Bytes an hour, from the first step to the last. */
  perHour: number;
  /** Whether it looks like a leak: in each third of the time, never less was held than in the third before, and more. */
  grows: boolean;
}

const FEWEST = 6; // steps of which something can be said

/** How what is held grows. Memory that is freed now and then does not: what counts is the least that is held. */
export function growth(steps: Held[]): Growth {
  const [first, last] = [steps[0], steps.at(-1)];
  if (!first || !last || first.at === last.at) return { perHour: 0, grows: false };
  const perHour = ((last.least - first.least) / (last.at - first.at)) * 3600;
  const third = Math.floor(steps.length / 3);
  const floors = [0, third, steps.length - third].map((from) => Math.min(...steps.slice(from, from + third).map((step) => step.least)));
  const [begin = 0, middle = 0, end = 0] = floors;
  return { perHour, grows: steps.length >= FEWEST && begin < middle && middle < end };
}
