import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { components } from "../api/schema";
import { cell, clock, moment } from "../parts/format";
import { named, rowsOf } from "../parts/process";
import { Partial } from "../parts/states";
import { Blocked } from "./blocked";
import { Remedy } from "./remedy";
import { RequestParts } from "./request";
import { sentenceOf } from "./sentence";
import { Split } from "./split";
import { Things } from "./things";
import { Timeline } from "./timeline";

/** The sentence first, then threads, what the process did and waited for, stacks. */
export function Told({ answer }: { answer: components["schemas"]["Why"] }) {
  const { i18n } = useLingui();
  const { pid, start_ns, request } = answer;
  if (pid === null || start_ns === null) return null; // of a machine
  const most = Math.max(...answer.threads.map((thread) => thread.total_ns));
  return (
    <>
      <section className="card">
        <p className="soft break">
          <span className="mono">{pid}</span> {cell(answer.exe)} · {moment(request?.begin ?? answer.since)} – {clock(request?.end ?? answer.until)}
        </p>
        <p className="sentence">{cell(sentenceOf(i18n, answer.sentence))}</p>
        {request ? <RequestParts request={request} machine={answer.machine_id} /> : answer.wall && <Split times={answer.wall} />}
        {!answer.complete && (
          <Partial>
            <Trans>Not all rows of this window were read.</Trans>
          </Partial>
        )}
        {answer.not_recorded.map((one) => (
          <Remedy key={one.stream} lacks={one} machine={answer.machine_id} pid={pid} />
        ))}
      </section>
      <Timeline answer={answer} pid={pid} />
      {request && (
        <header>
          <h2>
            <Trans>What its process did meanwhile</Trans>
          </h2>
          <Link to="/why" search={{ ...named(pid, start_ns), machine: answer.machine_id, since: answer.since, until: answer.until }}>
            <Trans>Why the process?</Trans>
          </Link>
        </header>
      )}
      {answer.threads.length > 0 && (
        <section className="card">
          <h2>
            <Trans>Threads</Trans>
          </h2>
          {answer.threads.map((thread) => (
            <div key={`${thread.tid} ${thread.name}`} className="thread">
              <span className="clip">
                {cell(thread.name)} <span className="soft">{thread.tid}</span>
              </span>
              <Split times={thread} most={most} />
            </div>
          ))}
        </section>
      )}
      <Things answer={answer} />
      <Blocked answer={answer} rows={rowsOf(pid, start_ns)} />
    </>
  );
}
