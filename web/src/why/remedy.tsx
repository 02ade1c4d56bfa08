import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { components } from "../api/schema";

/** A stream that was not recorded, and how to record it. */
export function Remedy({ lacks, machine, pid }: { lacks: components["schemas"]["Missing"]; machine: string; pid: number | null }) {
  return (
    <p className="soft">
      <Trans>{lacks.stream} was not recorded of it.</Trans>{" "}
      <Link to="/start" search={{ machine, pid: pid === null ? undefined : String(pid), probe: lacks.probe }}>
        <Trans>Start the probe {lacks.probe}</Trans>
      </Link>
    </p>
  );
}
