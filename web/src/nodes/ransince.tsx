import { Trans } from "@lingui/react/macro";

import { clock } from "../parts/format";

/** Below a list of processes that run: what it leaves out. */
export function RanSince({ since }: { since?: string }) {
  if (!since) return null;
  return (
    <p className="soft">
      <Trans>Processes that ran only before {clock(since)} are hidden: too many run</Trans>
    </p>
  );
}
