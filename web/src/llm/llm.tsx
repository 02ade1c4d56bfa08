import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { useStream } from "../api/catalogue";
import { api, data } from "../api/client";
import { Picture } from "../explore/picture";
import { useAsked } from "../parts/asked";
import { bytes, cell, clock, count, duration } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { readSelection } from "../parts/times";
import { Brushed } from "../explore/brushed";
import { Slowest } from "../subject/slowest";
import { TokenTime } from "./tokentime";

interface Request {
  time: string;
  machine_id: string;
  hostname: string;
  pid: number;
  comm: string;
  request: number;
  duration_ns: number | null;
  ttft_ns: number | null;
  token_rate: number | null;
  prompt_tokens: number;
  cached_tokens: number;
  generated_tokens: number;
  ended: string;
}

interface Model {
  time: string;
  path: string;
  duration_ns: number;
  file_bytes: number;
  comm: string;
}

/** Inference: requests, where the time of tokens goes, the slowest ones with their causes, models. */
export function Llm() {
  const { t } = useLingui();
  const [search] = useAddress();
  const tokens = useStream("llama_token");
  const brushed = readSelection(search.brushed);
  const requests = useNewest<Request>("llama_request", 50);
  const models = useNewest<Model>("ollama_model", 20);
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>LLM inference</Trans>
        </h1>
      </header>
      <section className="card">{tokens && <Picture stream={tokens} selection={brushed} />}</section>
      {tokens && brushed && <Brushed stream={tokens} selection={brushed} />}
      <TokenTime />
      <Slowest stream="llama_token" title={t`Slowest tokens`} />
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
              <Table
                rows={all}
                keyOf={(one) => `${one.machine_id} ${one.pid} ${one.request} ${one.time}`}
                fields={[
                  { name: t`Ended`, show: (one) => clock(one.time) },
                  { name: t`Server`, show: (one) => <>{cell(one.comm)} <span className="soft">{cell(one.hostname)}</span></> },
                  { name: t`took`, number: true, show: (one) => one.duration_ns ? duration(one.duration_ns) : "–" },
                  { name: t`first token after`, number: true, show: (one) => one.ttft_ns ? duration(one.ttft_ns) : "–" },
                  { name: t`tokens/s`, number: true, show: (one) => one.token_rate?.toFixed(1) ?? "–" },
                  { name: t`prompt`, number: true, show: (one) => count(one.prompt_tokens) },
                  { name: t`cached`, number: true, show: (one) => count(one.cached_tokens) },
                  { name: t`generated`, number: true, show: (one) => count(one.generated_tokens) },
                  { name: t`How it ended`, show: (one) => cell(one.ended) },
                  {
                    show: (one) => (
                      <Link to="/explore/$stream" params={{ stream: "llama_token" }} search={(before) => ({ ...before, where: `pid = ${one.pid} and request = ${one.request}` })}>
                        <Trans>its tokens</Trans>
                      </Link>
                    ),
                  },
                ]}
              />
            )
          }
        </Shown>
      </section>
      <section className="card scroll">
        <h2>
          <Trans>Models that were loaded</Trans>
        </h2>
        <Shown of={models} height={100}>
          {(all) =>
            all.length === 0 ? (
              <p className="soft">
                <Trans>None in this window; the probe ollama records them.</Trans>
              </p>
            ) : (
              <Table
                rows={all}
                keyOf={(one) => `${one.time} ${one.path}`}
                fields={[
                  { show: (one) => clock(one.time) },
                  { className: "break mono", show: (one) => cell(one.path) },
                  { number: true, show: (one) => bytes(one.file_bytes) },
                  { number: true, show: (one) => duration(one.duration_ns) },
                ]}
              />
            )
          }
        </Shown>
      </section>
      <p>
        <Link to="/explore/$stream" params={{ stream: "ollama_request" }}>
          <Trans>Requests over HTTP</Trans>
        </Link>
      </p>
    </div>
  );
}

/** The newest rows of a stream in the window. */
function useNewest<T>(stream: string, limit: number) {
  const { key, now, live, ready } = useAsked(stream);
  return useQuery({
    queryKey: ["newest", limit, ...key],
    queryFn: async ({ signal }) => {
      const query = { ...now(), limit };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream }, query }, signal });
      return (await data(call)).events as unknown as T[];
    },
    enabled: ready,
    refetchInterval: live && 10_000,
    placeholderData: (before) => before,
  });
}
