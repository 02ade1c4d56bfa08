import { useLingui } from "@lingui/react/macro";

import type { components } from "../api/schema";
import { FlamePicture } from "../flames/picture";
import { useFilterAmong } from "../parts/asked";
import { both } from "../parts/complete";
import { Loading } from "../parts/states";

const STREAM = "why_summary";

/** Where a process was blocked: of its rows, those that meet the page's filter, such as those of one thread. */
export function Blocked({ answer: { since, until, machine_id: machine }, rows }: { answer: components["schemas"]["Why"]; rows: string }) {
  const { t } = useLingui();
  const title = t`Where it was blocked, by stack`;
  const filter = useFilterAmong([STREAM], title);
  const where = both(rows, filter.where);
  return (
    <section className="card">
      <h2>{title}</h2>
      {filter.ready ? (
        <FlamePicture stream={{ name: STREAM }} query={{ since, until, machine, where, by: "blocked_ns" }} cacheKey={["why", machine, since, until, where]} />
      ) : (
        <Loading height={420} />
      )}
    </section>
  );
}
