import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { useCards } from "../parts/cards";
import { cell, clock, moment } from "../parts/format";
import { named, rowsOf } from "../parts/process";
import { useAddress } from "../parts/search";
import { Partial, Shown } from "../parts/states";
import { askedPart, isLive } from "../parts/times";
import { FlamePicture } from "../flames/picture";
import { Choose } from "./choose";
import { Split } from "./split";
import { Things } from "./things";
import "./why.css";

type Answer = components["schemas"]["Why"];

/** Why a process took its time: the sentence first, then threads, what it did and waited for, stacks. */
export function Why() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const pid = Number(search.pid);
  const start = search.start ? Number(search.start) : undefined;
  useCards([{ name: t`Why`, lacks: [] }]);
  const found = useQuery({
    queryKey: ["why", pid, start, search.machine, search.since, search.until, search.brushed],
    queryFn: ({ signal }) => data(api.GET("/api/v1/why", { params: { query: { ...askedPart(search), pid, start, machine: search.machine } }, signal })),
    enabled: pid > 0,
    refetchInterval: isLive(search) && 15_000,
    placeholderData: (before) => (before?.pid === pid && (start === undefined || before.start_ns === start) ? before : undefined),
  });
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Why</Trans>
        </h1>
        {pid > 0 && (
          <button type="button" onClick={() => change({ pid: undefined, start: undefined })}>
            <Trans>Another process</Trans>
          </button>
        )}
      </header>
      {pid > 0 ? (
        <Shown of={found} height={300}>
          {(answer) => <Told answer={answer} />}
        </Shown>
      ) : (
        <Choose onChoose={(one) => change({ ...named(one.pid, one.start), machine: one.hostname })} />
      )}
    </div>
  );
}

function Told({ answer }: { answer: Answer }) {
  const [search] = useAddress();
  const where = rowsOf(answer.pid ?? 0, answer.start_ns ?? 0);
  const window = { since: answer.since, until: answer.until };
  return (
    <>
      <section className="card">
        <p className="soft break">
          <span className="mono">{answer.pid}</span> {cell(answer.exe)} · {moment(answer.since)} – {clock(answer.until)}
        </p>
        <p className="sentence">{cell(answer.sentence)}</p>
        {answer.wall && <Split times={answer.wall} />}
        {!answer.complete && (
          <Partial>
            <Trans>Not all rows of this window were read.</Trans>
          </Partial>
        )}
        {answer.not_recorded.map((one) => (
          <p key={one.stream} className="soft">
            <Trans>{one.stream} was not recorded of it.</Trans>{" "}
            <Link to="/start" search={{ machine: answer.machine_id, pid: String(answer.pid), probe: one.probe }}>
              <Trans>Start the probe {one.probe}</Trans>
            </Link>
          </p>
        ))}
      </section>
      {answer.threads.length > 0 && (
        <section className="card">
          <h2>
            <Trans>Threads</Trans>
          </h2>
          {answer.threads.map((thread) => (
            <div key={thread.tid} className="thread">
              <span className="clip">
                {cell(thread.name)} <span className="soft">{thread.tid}</span>
              </span>
              <Split times={thread} most={answer.threads[0]?.total_ns} />
            </div>
          ))}
        </section>
      )}
      <Things answer={answer} />
      <section className="card">
        <h2>
          <Trans>Where it was blocked, by stack</Trans>
        </h2>
        <FlamePicture
          stream={{ name: "why_summary" }}
          query={{ ...window, machine: answer.machine_id, where, by: "blocked_ns" }}
          cacheKey={["why", answer.pid, answer.start_ns, answer.machine_id, search.since, search.until, search.brushed]}
        />
      </section>
    </>
  );
}
