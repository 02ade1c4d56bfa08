import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { json } from "../api/client";
import { bytes, count, duration, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";

interface Held {
  pid: number | null;
  comm: string;
  hostname: string;
  stack?: string | null;
  memory?: string;
  live_bytes: number;
  live_count: number;
  mean_age_ns?: number;
}

const SHOWN = 10;

/** What is allocated and not freed, by the code that allocated it: the oldest and largest are what leaks look like. */
export function Memory() {
  const { t } = useLingui();
  const [search] = useAddress();
  const found = useQuery({
    queryKey: ["states", "cuda_live", search.machine],
    queryFn: async ({ signal }) => (await json<{ groups: Held[] }>("states/cuda_live", { node: search.machine, limit: 100 }, signal)).groups,
    refetchInterval: 10_000,
  });
  return (
    <section className="card scroll">
      <h2>
        <Trans>GPU memory that is not freed, by the code that allocated it</Trans>
      </h2>
      <Shown of={found} height={160}>
        {(groups) =>
          groups.length === 0 ? (
            <Empty title={<Trans>No unfreed CUDA memory recorded</Trans>}>
              <Link to="/start" search={{ probe: "cuda" }}>
                <Trans>Start the probe cuda</Trans>
              </Link>
            </Empty>
          ) : (
            <>
              <table className="plain">
                <thead>
                  <tr>
                    <th>{t`Program`}</th>
                    <th>{t`Allocated by`}</th>
                    <th className="number">{t`held`}</th>
                    <th className="number">{t`allocations`}</th>
                    <th className="number">{t`mean age`}</th>
                  </tr>
                </thead>
                <tbody>
                  {groups.slice(0, SHOWN).map((one, number) => (
                    <tr key={number}>
                      <td>
                        {visible(one.comm)} <span className="soft">{one.pid}</span>
                      </td>
                      <td className="break mono">{visible(innermost(one.stack))}</td>
                      <td className="number">{bytes(one.live_bytes)}</td>
                      <td className="number">{count(one.live_count)}</td>
                      <td className="number">{one.mean_age_ns ? duration(one.mean_age_ns) : "–"}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <p className="row">
                {groups.length > SHOWN && <span className="soft">{t`${groups.length - SHOWN} hidden`}</span>}
                <Link to="/flames/$stream" params={{ stream: "cuda_live" }}>
                  <Trans>As a flame graph</Trans>
                </Link>
              </p>
            </>
          )
        }
      </Shown>
    </section>
  );
}

/** The last frames of a stack, innermost first. */
function innermost(stack: string | null | undefined): string {
  return (stack ?? "–").split(";").slice(-3).reverse().join(" ← ");
}
