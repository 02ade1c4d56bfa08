import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { bytes, visible } from "../parts/format";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { useLatestDevices } from "./gpu.api";
import { HiddenDevices } from "./hidden";

/** The newest sample of each GPU: of one machine, or those of the page. */
export function Devices({ machine }: { machine?: string }) {
  const { t } = useLingui();
  const devices = useLatestDevices(machine);
  return (
    <section className="card scroll">
      <h2>
        <Trans>Devices</Trans>
      </h2>
      <Shown of={devices} height={120}>
        {({ devices: all, since }) =>
          all.length === 0 ? (
            <Empty title={<Trans>No GPU is watched in this window</Trans>}>
              <Link to="/start" search={{ probe: "gpu", machine }}>
                <Trans>Watch the GPUs</Trans>
              </Link>
            </Empty>
          ) : (
            <>
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
              <HiddenDevices since={since} />
            </>
          )
        }
      </Shown>
    </section>
  );
}
