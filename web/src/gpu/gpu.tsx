import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { bytes } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Top } from "../parts/top";
import { Memory } from "./memory";
import { latestDevices } from "./gpu.api";
import { Categories } from "./categories";

/** GPUs: how busy, who holds their memory, what is launched and copied, what failed. */
export function Gpu() {
  const { t } = useLingui();
  const [search] = useAddress();
  const devices = useQuery(latestDevices(search));
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
              <table className="plain">
                <thead>
                  <tr>
                    <th>{t`GPU`}</th>
                    <th className="number">{t`busy`}</th>
                    <th className="number">{t`memory`}</th>
                    <th className="number">{t`temperature`}</th>
                    <th className="number">{t`power`}</th>
                    <th>{t`slowed by`}</th>
                  </tr>
                </thead>
                <tbody>
                  {all.map((one) => (
                    <tr key={one.uuid}>
                      <td>
                        {one.hostname} {one.device} {one.name}
                      </td>
                      <td className="number">{one.gpu_percent ?? "–"} %</td>
                      <td className="number">
                        {bytes(one.memory_used_bytes ?? 0)} / {bytes(one.memory_total_bytes ?? 0)}
                      </td>
                      <td className="number">{one.temperature_celsius ?? "–"} °C</td>
                      <td className="number">{one.power_watts?.toFixed(0) ?? "–"} W</td>
                      <td>{one.slowed_by}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
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
