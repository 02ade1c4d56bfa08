import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { Lines } from "../parts/lines";
import { Measures } from "../parts/measures";
import { useTotals } from "../parts/series";
import { Empty, Shown } from "../parts/states";

const CPU = ["user", "nice", "system", "irq", "softirq", "steal", "iowait"];

/** A machine's CPUs, memory, disks and networks over time. */
export function SystemCharts({ machine }: { machine: string }) {
  const { t } = useLingui();
  const found = useTotals({ stream: "system", top: 1, machine });
  const cpu = useMemo(() => CPU.map((name) => ({ name, cell: `mean(${name}_percent)` })), []);
  const memory = useMemo(
    () => [
      { name: t`available`, cell: "mean(memory_available_bytes)" },
      { name: t`cached`, cell: "mean(memory_cached_bytes)" },
      { name: t`dirty`, cell: "mean(memory_dirty_bytes)" },
      { name: t`in all`, cell: "max(memory_total_bytes)" },
    ],
    [t],
  );
  const pressure = useMemo(
    () => [
      { name: t`CPU`, cell: "mean(cpu_pressure_percent)" },
      { name: t`memory`, cell: "mean(memory_pressure_percent)" },
      { name: t`disks`, cell: "mean(io_pressure_percent)" },
    ],
    [t],
  );
  return (
    <Shown of={found} height={120}>
      {({ groups }) =>
        groups.length === 0 ? (
          <section className="card">
            <h2>
              <Trans>CPUs, memory, disks and networks</Trans>
            </h2>
            <Empty title={<Trans>Nothing recorded in this window</Trans>}>
              <Link to="/start" search={{ machine, probe: "system" }}>
                <Trans>Start the probe {"system"}</Trans>
              </Link>
            </Empty>
          </section>
        ) : (
          <div className="cards">
            <Measures title={t`Time of the CPUs`} stream="system" cells={cpu} machine={machine} stacked />
            <Measures title={t`Memory`} stream="system" cells={memory} machine={machine} />
            <Measures title={t`Time in which something waited`} stream="system" cells={pressure} machine={machine} />
            <Lines title={t`How busy each disk is`} stream="system_disk" by="disk" cell="mean(busy_percent)" machine={machine} />
            <Lines title={t`Read from disks`} stream="system_disk" by="disk" cell="sum(read_bytes)" machine={machine} />
            <Lines title={t`Written to disks`} stream="system_disk" by="disk" cell="sum(written_bytes)" machine={machine} />
            <Lines title={t`Received from networks`} stream="system_network" by="interface" cell="sum(received_bytes)" machine={machine} />
            <Lines title={t`Sent to networks`} stream="system_network" by="interface" cell="sum(sent_bytes)" machine={machine} />
            <Lines title={t`Memory of programs`} stream="system_process" by="comm,pid" cell="max(rss_bytes)" machine={machine} />
          </div>
        )
      }
    </Shown>
  );
}
