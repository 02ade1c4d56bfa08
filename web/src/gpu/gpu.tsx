import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { bytes, visible } from "../parts/format";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { Top } from "../parts/top";
import { Memory } from "./memory";
import { useLatestDevices } from "./gpu.api";
import { Categories } from "./categories";

/** GPUs: how busy, who holds their memory, what is launched and copied, what failed. */
export function Gpu() {
  const { t } = useLingui();
  const devices = useLatestDevices();
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>GPU</Trans>
        </h1>
      </header>
      <section className="card scroll">
        <h2>
          <Trans>Devices</Trans>
        </h2>
        <Shown of={devices} height={120}>
          {(all) =>
            all.length === 0 ? (
              <Empty title={<Trans>No GPU is watched in this window</Trans>}>
                <Link to="/start" search={{ probe: "gpu" }}>
                  <Trans>Watch the GPUs</Trans>
                </Link>
              </Empty>
            ) : (
              <Table
                rows={all}
                keyOf={(one) => one.uuid}
                fields={[
                  { name: t`GPU`, show: (one) => <>{visible(`${one.hostname} ${one.device} ${one.name}`)}</> },
                  { name: t`busy`, number: true, show: (one) => <>{one.gpu_percent ?? "–"} %</> },
                  { name: t`memory`, number: true, show: (one) => <>{bytes(one.memory_used_bytes ?? 0)} / {bytes(one.memory_total_bytes ?? 0)}</> },
                  { name: t`temperature`, number: true, show: (one) => <>{one.temperature_celsius ?? "–"} °C</> },
                  { name: t`power`, number: true, show: (one) => <>{one.power_watts?.toFixed(0) ?? "–"} W</> },
                  { name: t`slowed by`, show: (one) => one.slowed_by },
                ]}
              />
            )
          }
        </Shown>
      </section>
      <Memory />
      <div className="cards">
        <Top title={t`Kernels by time of their launches`} stream="cuda_launch" by="kernel" />
        <Categories />
        <Top title={t`Calls by time`} stream="cuda_call" by="function" />
        <Top title={t`Calls that failed`} stream="cuda_call" by="function" cell="failed" />
      </div>
    </div>
  );
}
