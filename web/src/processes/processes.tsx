import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { nodes } from "../nodes/nodes.api";
import { useSteady } from "../nodes/steady";
import { visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty } from "../parts/states";
import { ProcessTree } from "./processtree";

/** The processes of a machine as a tree: whose children they are, when they began and ended, and their time on CPUs. */
export function Processes() {
  const [search] = useAddress();
  const machines = useQuery(nodes).data;
  const machine = useSteady(machines ?? [], search.machine) ?? machines?.[0]?.machine_id;
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Processes</Trans>
        </h1>
        <span className="soft">{visible(machines?.find((one) => one.machine_id === machine || one.hostname === machine)?.hostname ?? "")}</span>
      </header>
      {machines?.length === 0 ? (
        <Empty title={<Trans>No machine has joined yet</Trans>} />
      ) : (
        <section className="card">
          <ProcessTree machine={machine} />
        </section>
      )}
    </div>
  );
}
