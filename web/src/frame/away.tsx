import { Trans } from "@lingui/react/macro";
import type { UseQueryResult } from "@tanstack/react-query";

import { Partial } from "../parts/states";

/** Says that the server is away. The page goes on by itself when it is back, and what was typed stays. */
export function Away({ health }: { health: UseQueryResult<unknown> }) {
  if (!health.isError) return null;
  const said = health.error instanceof Error ? health.error.message : "";
  return (
    <div className="away">
      <Partial>
        <Trans>The server is away: {said}. This page goes on when it is back.</Trans>
      </Partial>
    </div>
  );
}
