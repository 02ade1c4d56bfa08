import { useState } from "react";

import type { Node } from "../api/answers";

/**
 * The id of the machine that a screen is about: the chosen one, or else the first that is connected. It stays the same while
 * it is known, also if it is away for a moment: what somebody types belongs to it.
 */
export function useSteady(known: Node[], chosen?: string): string | undefined {
  const [kept, keep] = useState<string>();
  const isKept = known.some((one) => one.machine_id === kept);
  const steady = isKept ? kept : known.find((one) => one.connected)?.machine_id;
  if (steady !== kept) keep(steady);
  return chosen ?? steady;
}
