import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { since, visible } from "../parts/format";
import { meaning } from "../parts/meaning";
import { Shown } from "../parts/states";
import { Table } from "../parts/table";
import { probes } from "./nodes.api";

/** What the machine allows: each probe, how it attaches, and why that way or not at all. */
export function Report({ node }: { node: string }) {
  const { t } = useLingui();
  const found = useQuery(probes(node));
  return (
    <section className="card scroll">
      <h2>
        <Trans>Probes</Trans>
      </h2>
      <Shown of={found} height={240}>
        {({ probes: all, host, examined, connected, current }) => (
          <>
            {examined && (
              <p className="soft">
                <Trans>Tried on this host {since(examined)} ago.</Trans>{" "}
                {!connected ? <Trans>The agent is away.</Trans> : !current && <Trans>The agent is to try them again.</Trans>}
              </p>
            )}
            {host.length > 0 && (
              <ul className="soft">
                {host.map((one) => (
                  <li key={one.name}>
                    {one.available ? <span className="good">✓</span> : <span className="bad">✗</span>} {visible(one.name)}: {visible(one.reason)}
                  </li>
                ))}
              </ul>
            )}
            <Table
              rows={all}
              keyOf={(probe) => probe.name}
              fields={[
                {
                  name: t`Probe`,
                  show: (probe) => (
                    <Link to="/start" search={{ machine: node, probe: probe.name }}>
                      {probe.name}
                    </Link>
                  ),
                },
                { name: t`Works`, show: (probe) => <Works available={probe.available} noDevice={probe.no_device} /> },
                { name: t`Records`, show: (probe) => meaning(probe.meaning) },
                { name: t`Attaches by`, className: "probe-reason break", show: (probe) => <>{probe.attach_point} <span className="soft">{visible(probe.reason ?? "")}</span></> },
                { name: t`Does not record`, show: (probe) => visible(probe.unseen.join(", ")) },
              ]}
            />
          </>
        )}
      </Shown>
    </section>
  );
}

/** A host without a device for a probe is in order. */
function Works({ available, noDevice }: { available: boolean; noDevice: boolean }) {
  if (available) return <span className="good">✓</span>;
  return noDevice ? <span className="soft">–</span> : <span className="bad">✗</span>;
}
