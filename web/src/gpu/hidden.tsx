import { Trans } from "@lingui/react/macro";

import { clock } from "../parts/format";

/** Below a list of GPUs: what it leaves out. */
export function HiddenDevices({ since }: { since?: string }) {
  if (!since) return null;
  return (
    <p className="soft">
      <Trans>GPUs without a sample since {clock(since)} are hidden: choose a machine or a shorter window</Trans>
    </p>
  );
}
