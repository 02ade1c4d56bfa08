import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { components } from "../api/schema";
import { Bars } from "../parts/bars";
import { cell, duration, share } from "../parts/format";
import { meaning } from "../parts/meaning";

type RequestTime = components["schemas"]["RequestTime"];

/** Where the time of a request itself went. */
export function RequestParts({ request, machine }: { request: RequestTime; machine: string }) {
  const { t } = useLingui();
  const names: Record<string, string> = {
    on_cpu: t`on a CPU`,
    gpu_wait: t`waiting for a GPU`,
    run_queue: t`waiting for a CPU`,
    blocked: t`blocked`,
    stopped: t`stopped by a signal`,
    unknown: t`not known`,
  };
  const parts = request.parts.filter((one) => one.ns > 0).sort((one, other) => other.ns - one.ns);
  return (
    <>
      {parts.length > 0 && (
        <Bars
          bars={parts.map((one) => ({
            name: names[one.part] ?? one.part,
            value: one.ns,
            told: `${share(one.ns / request.duration_ns)} · ${duration(one.ns)}`,
          }))}
        />
      )}
      {request.times.length > 0 && (
        <>
          <h3>
            <Trans>Its own times</Trans>
          </h3>
          <Bars bars={request.times.map((one) => ({ name: `${one.column}: ${meaning(one.meaning)}`, value: one.ns, told: duration(one.ns) }))} />
        </>
      )}
      <p>
        <Link
          to="/explore/$stream"
          params={{ stream: request.stream }}
          search={{ since: request.begin, until: request.end, machine, where: request.where }}
        >
          <Trans>Its row of {cell(request.stream)}</Trans>
        </Link>
      </p>
    </>
  );
}
