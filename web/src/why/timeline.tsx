import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { clock } from "../parts/format";
import { useMarks } from "../parts/marks";
import { Empty, Partial, Shown } from "../parts/states";
import { Lanes } from "./lanes";
import { Remedy } from "./remedy";

/** The split of a process by thread over time: of a request from its begin to its end, else of the window. */
export function Timeline({ answer, pid }: { answer: components["schemas"]["Why"]; pid: number }) {
  const { machine_id: machine, start_ns } = answer;
  const { since, until } = answer.request ? { since: answer.request.begin, until: answer.request.end } : answer;
  const marks = useMarks();
  const found = useQuery({
    queryKey: ["why timeline", machine, pid, start_ns, since, until],
    queryFn: ({ signal }) => {
      const query = { pid, start: start_ns ?? undefined, machine, since, until };
      return data(api.GET("/api/v1/why/timeline", { params: { query }, signal }));
    },
    placeholderData: (before) => (before?.pid === pid && before.start_ns === start_ns ? before : undefined),
  });
  return (
    <section className="card">
      <h2>
        <Trans>When each thread waited</Trans>
      </h2>
      <Shown of={found} height={160}>
        {(timeline) => (
          <>
            {!timeline.complete && (
              <Partial>
                <Trans>From {clock(timeline.since)} on: the window has too many rows.</Trans>
              </Partial>
            )}
            {timeline.lanes.length > 0 ? (
              <Lanes timeline={timeline} marks={marks} />
            ) : (
              <Empty title={<Trans>What its threads did when was not recorded</Trans>}>
                {timeline.not_recorded.map((one) => (
                  <Remedy key={one.stream} lacks={one} machine={machine} pid={pid} />
                ))}
              </Empty>
            )}
          </>
        )}
      </Shown>
    </section>
  );
}
