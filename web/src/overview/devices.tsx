import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { useLatestDevices } from "../gpu/gpu.api";
import { HiddenDevices } from "../gpu/hidden";
import { Bars } from "../parts/bars";
import { bytes } from "../parts/format";
import { Empty, Shown } from "../parts/states";

/** How busy each GPU is, by its last sample. */
export function Devices() {
  const found = useLatestDevices();
  return (
    <section className="card">
      <h2>
        <Trans>GPUs</Trans>
      </h2>
      <Shown of={found} height={120}>
        {({ devices, since }) =>
          devices.length === 0 ? (
            <Empty title={<Trans>No GPU is watched in this window</Trans>}>
              <Link to="/start" search={{ probe: "gpu" }}>
                <Trans>Watch the GPUs</Trans>
              </Link>
            </Empty>
          ) : (
            <>
              <Bars
                bars={devices.map((device) => ({
                  name: `${device.hostname} ${device.name} ${device.device}`,
                  value: device.gpu_percent ?? 0,
                  told: `${device.gpu_percent ?? "?"} % · ${bytes(device.memory_used_bytes ?? 0)}`,
                  link: (told) => <Link to="/gpu">{told}</Link>,
                }))}
              />
              <HiddenDevices since={since} />
            </>
          )
        }
      </Shown>
    </section>
  );
}
