import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { share, visible } from "../parts/format";
import { Empty, Shown } from "../parts/states";
import { processes } from "./processes.api";

const SHOWN = 14;

/** What runs on a machine now. */
export function Processes({ machine }: { machine: string }) {
  const { t } = useLingui();
  const found = useQuery(processes(machine));
  return (
    <section className="card">
      <h2>
        <Trans>Processes</Trans>
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
            <table className="plain">
              <thead>
                <tr>
                  <th className="number">{t`pid`}</th>
                  <th>{t`Program`}</th>
                  <th className="number">{t`on a CPU`}</th>
                  <th className="number">{t`waiting for one`}</th>
                  <th />
                </tr>
              </thead>
              <tbody>
                {all.slice(0, SHOWN).map((one) => (
                  <tr key={one.pid}>
                    <td className="number">{one.pid}</td>
                    <td className="clip">{visible(one.comm)}</td>
                    <td className="number">{share(one.onCpu)}</td>
                    <td className="number">{share(one.waiting)}</td>
                    <td>
                      <Link to="/why" search={{ machine, pid: String(one.pid) }}>
                        <Trans>why?</Trans>
                      </Link>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Shown>
    </section>
  );
}
