import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { components } from "../api/schema";
import { visible } from "../parts/format";
import { Table } from "../parts/table";

/** Of tasks that were started together, those that an agent refused: why. */
export function Started({ group }: { group: components["schemas"]["StartedGroup"] }) {
  const { t } = useLingui();
  const [begun, refused] = [group.tasks.length, group.refused.length];
  return (
    <section className="card" role="status">
      <h2>
        <Trans>
          {begun} tasks were started, {refused} were refused
        </Trans>
      </h2>
      <Table
        rows={group.refused}
        keyOf={(one) => `${one.node} ${one.probe}`}
        fields={[
          { name: t`Machine`, show: (one) => visible(one.hostname) },
          { name: t`Probe`, show: (one) => one.probe },
          { name: t`Reason`, className: "break", show: (one) => visible(one.reason) },
        ]}
      />
      {begun > 0 && (
        <p>
          <Link to="/tasks" search={{ group: group.group_id }}>
            <Trans>The tasks that were started</Trans>
          </Link>
        </p>
      )}
    </section>
  );
}
