import { Trans } from "@lingui/react/macro";

import { NotAvailable } from "../parts/states";

export function Why() {
  return (
    <div className="screen">
      <h1>
        <Trans>Why</Trans>
      </h1>
      <NotAvailable />
    </div>
  );
}
