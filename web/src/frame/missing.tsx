import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { Empty } from "../parts/states";

export function Missing() {
  return (
    <div className="screen">
      <Empty title={<Trans>There is no such page</Trans>}>
        <Link to="/">
          <Trans>To the overview</Trans>
        </Link>
      </Empty>
    </div>
  );
}
