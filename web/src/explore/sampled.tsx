import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { streams } from "../api/catalogue";
import type { Query } from "../api/client";
import type { Stream } from "../api/columns";
import { FlamePicture } from "../flames/picture";
import { meaning } from "../parts/meaning";
import { useAddress } from "../parts/search";
import { Empty } from "../parts/states";

/** Where threads were while the brushed rows lasted, against the others: by samples of one of the other streams. */
export function Sampled({ of, samples, query, cacheKey }: { of: Stream; samples: string[]; query: Query; cacheKey: unknown[] }) {
  const { t } = useLingui();
  const [search] = useAddress();
  const [chosen, setChosen] = useState<string>();
  const known = useQuery(streams).data ?? [];
  const name = chosen ?? (samples.includes("profile") ? "profile" : samples[0]);
  const stream = known.find((one) => one.name === name);
  return (
    <section aria-label={t`Where the threads were inside, against outside`}>
      <h3>
        <Trans>Where the threads were inside, against outside</Trans>
      </h3>
      {samples.length > 1 && (
        <div className="row">
          {samples.map((one) => (
            <button key={one} type="button" aria-pressed={one === name} onClick={() => setChosen(one)}>
              {meaning(known.find((each) => each.name === one)?.flame?.title ?? one)}
            </button>
          ))}
        </div>
      )}
      {stream ? (
        <FlamePicture stream={stream} query={{ ...query, of: of.name }} cacheKey={[...cacheKey, of.name]} difference />
      ) : (
        samples.length === 0 && (
          <Empty title={<Trans>No stack was sampled while these rows lasted</Trans>}>
            <Link to="/start" search={{ machine: search.machine, probe: "profile" }}>
              <Trans>Start the probe profile</Trans>
            </Link>
          </Empty>
        )
      )}
    </section>
  );
}
