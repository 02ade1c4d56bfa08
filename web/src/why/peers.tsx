import { Trans, useLingui } from "@lingui/react/macro";

import type { components } from "../api/schema";
import { bytes, cell, count, duration } from "../parts/format";
import { Table } from "../parts/table";

/** Whom the process talked to over TCP. */
export function Peers({ peers }: { peers: components["schemas"]["Peer"][] }) {
  const { t } = useLingui();
  const directions: Record<string, string> = { outgoing: t`outgoing`, incoming: t`incoming` };
  return (
    <section className="card">
      <h2>
        <Trans>Peers</Trans>
      </h2>
      <Table
        rows={peers}
        keyOf={(one) => `${one.remote} ${one.port} ${one.direction}`}
        fields={[
          { name: t`Address`, className: "mono", show: (one) => cell(one.remote) },
          { name: t`Port of the server`, number: true, show: (one) => cell(one.port) },
          { name: t`Direction`, show: (one) => directions[one.direction ?? ""] ?? cell(one.direction) },
          { name: t`Begun`, number: true, show: (one) => count(one.begun) },
          { name: t`Failed`, number: true, show: (one) => <span className={one.failed ? "bad" : undefined}>{count(one.failed)}</span> },
          { name: t`Sent`, number: true, show: (one) => bytes(one.sent_bytes) },
          { name: t`Received`, number: true, show: (one) => bytes(one.received_bytes) },
          { name: t`Sent again`, number: true, show: (one) => count(one.retransmits) },
          { name: t`Round trip`, number: true, show: (one) => (one.rtt_ns === null ? "–" : duration(one.rtt_ns)) },
        ]}
      />
    </section>
  );
}
