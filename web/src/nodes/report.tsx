import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { since } from "../parts/format";
import { Shown } from "../parts/states";
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
        {({ probes: all, examined }) => (
          <>
            {examined && (
              <p className="soft">
                <Trans>Tried on this host {since(examined)} ago.</Trans>
              </p>
            )}
            <table className="plain">
              <thead>
                <tr>
                  <th>{t`Probe`}</th>
                  <th>{t`Works`}</th>
                  <th>{t`Records`}</th>
                  <th>{t`Attaches by`}</th>
                </tr>
              </thead>
              <tbody>
                {all.map((probe) => (
                  <tr key={probe.name}>
                    <td>
                      <Link to="/start" search={{ machine: node, probe: probe.name }}>
                        {probe.name}
                      </Link>
                    </td>
                    <td>{probe.available ? <span className="good">✓</span> : <span className="bad">✗</span>}</td>
                    <td>{probe.meaning}</td>
                    <td className="probe-reason break">
                      {probe.attach_point} <span className="soft">{probe.reason}</span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </>
        )}
      </Shown>
    </section>
  );
}
