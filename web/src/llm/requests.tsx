import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { cell, clock, count, duration } from "../parts/format";
import { whyOf } from "../parts/request";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { around } from "./beside";
import { type HttpRequest, keyOf, type Request, useGaps, useNewest } from "./llm.api";

const SHOWN = 25;
const HTTP = 400; // rows of HTTP among which those around the requests are looked for
const told = (ns: number | null | undefined) => (ns ? duration(ns) : "–");

/** The newest requests to models: how long they took, the gaps between their tokens, and the requests over HTTP around them. */
export function Requests() {
  const { t } = useLingui();
  const requests = useNewest<Request>("llama_request", SHOWN);
  const http = useNewest<HttpRequest>("ollama_request", HTTP).data ?? [];
  const { gaps, cut } = useGaps(requests.data);
  return (
    <section className="card scroll">
      <h2>
        <Trans>Requests</Trans>
      </h2>
      <Shown of={requests} height={200}>
        {(all) =>
          all.length === 0 ? (
            <Empty title={<Trans>No requests in this window</Trans>}>
              <Link to="/start" search={{ probe: "llama" }}>
                <Trans>Start the probe llama</Trans>
              </Link>
            </Empty>
          ) : (
            <>
              <Table
                rows={all.map((one) => ({ ...one, http: around(one, http), gaps: gaps.get(keyOf(one)) }))}
                keyOf={(one) => `${keyOf(one)} ${one.time}`}
                fields={[
                  { name: t`Began`, show: (one) => clock(one.time) },
                  { name: t`Server`, show: (one) => <>{cell(one.comm)} <span className="soft">{cell(one.hostname)}</span></> },
                  { name: t`took`, number: true, show: (one) => told(one.duration_ns) },
                  { name: t`first token after`, number: true, show: (one) => told(one.ttft_ns) },
                  { name: t`tokens/s`, number: true, show: (one) => one.token_rate?.toFixed(1) ?? "–" },
                  { name: t`gaps, p99`, number: true, show: (one) => told(one.gaps?.p99_ns) },
                  { name: t`longest gap`, number: true, show: (one) => told(one.gaps?.longest_ns) },
                  { name: t`prompt`, number: true, show: (one) => count(one.prompt_tokens) },
                  { name: t`cached`, number: true, show: (one) => count(one.cached_tokens) },
                  { name: t`generated`, number: true, show: (one) => count(one.generated_tokens) },
                  { name: t`How it ended`, show: (one) => cell(one.ended) },
                  {
                    name: t`HTTP`,
                    className: "break",
                    show: ({ http: around }) => (around ? <><Status status={around.status} /> {cell(around.path)} <span className="soft">{told(around.duration_ns)}</span></> : "–"),
                  },
                  {
                    show: (one) => (
                      <Link to="/explore/$stream" params={{ stream: "llama_token" }} search={(before) => ({ ...before, view: undefined, where: `pid = ${one.pid} and request = ${one.request}` })}>
                        <Trans>its tokens</Trans>
                      </Link>
                    ),
                  },
                  {
                    show: (one) => (
                      <Link to="/why" search={whyOf("llama_request", one) ?? {}}>
                        <Trans>Why?</Trans>
                      </Link>
                    ),
                  },
                ]}
              />
              {cut && <p className="soft">{t`Gaps of some requests are hidden: choose a machine or a filter`}</p>}
            </>
          )
        }
      </Shown>
    </section>
  );
}

/** The status of a response. */
export function Status({ status }: { status: number | null }) {
  return <span className={status === null || status >= 400 ? "bad" : "good"}>{status ?? "–"}</span>;
}
