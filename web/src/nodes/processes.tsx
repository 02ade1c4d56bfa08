import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { share, visible } from "../parts/format";
import { named } from "../parts/process";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { processes } from "./processes.api";

const SHOWN = 14;

/** What runs on a machine now. */
export function Processes({ machine }: { machine: string }) {
  const { t } = useLingui();
  const found = useQuery(processes(machine));
  return (
    <section className="card">
      <h2>
        <Trans>Processes</Trans>{" "}
        <Link to="/processes" search={{ machine }} className="soft">
          <Trans>as a tree</Trans>
        </Link>
      </h2>
      <Shown of={found} height={300}>
        {(all) =>
          all.length === 0 ? (
            <Empty title={<Trans>The scheduler is not recorded here</Trans>}>
              <Link to="/start" search={{ machine, probe: "sched" }}>
                <Trans>Start the probe sched</Trans>
              </Link>
            </Empty>
          ) : (
            <Table
              rows={all.slice(0, SHOWN)}
              keyOf={(one) => `${one.pid} ${one.start}`}
              fields={[
                { name: t`pid`, number: true, show: (one) => one.pid },
                { name: t`Program`, className: "clip", show: (one) => visible(one.comm) },
                { name: t`on a CPU`, number: true, show: (one) => share(one.onCpu) },
                { name: t`waiting for one`, number: true, show: (one) => share(one.waiting) },
                {
                  show: (one) => (
                    <Link to="/why" search={{ machine, ...named(one.pid, one.start) }}>
                      <Trans>why?</Trans>
                    </Link>
                  ),
                },
              ]}
            />
          )
        }
      </Shown>
    </section>
  );
}
