import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { json } from "../api/client";
import { bytes, count, duration, visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";

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
              <Table
                rows={groups.slice(0, SHOWN)}
                keyOf={(_, number) => number}
                fields={[
                  { name: t`Program`, show: (one) => <>{visible(one.comm)} <span className="soft">{one.pid}</span></> },
                  { name: t`Allocated by`, className: "break mono", show: (one) => visible(innermost(one.stack)) },
                  { name: t`held`, number: true, show: (one) => bytes(one.live_bytes) },
                  { name: t`allocations`, number: true, show: (one) => count(one.live_count) },
                  { name: t`mean age`, number: true, show: (one) => one.mean_age_ns ? duration(one.mean_age_ns) : "–" },
                ]}
              />
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
