import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { useStream } from "../api/catalogue";
import { api, data } from "../api/client";
import { Picture } from "../explore/picture";
import { bytes, cell, clock, count, duration } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { asked, isLive, readSelection } from "../parts/times";
import { Brushed } from "../explore/brushed";
import { Slowest } from "./slowest";
import { TokenTime } from "./tokentime";
import "./llm.css";

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
              <table className="plain">
                <thead>
                  <tr>
                    <th>{t`Ended`}</th>
                    <th>{t`Server`}</th>
                    <th className="number">{t`took`}</th>
                    <th className="number">{t`first token after`}</th>
                    <th className="number">{t`tokens/s`}</th>
                    <th className="number">{t`prompt`}</th>
                    <th className="number">{t`cached`}</th>
                    <th className="number">{t`generated`}</th>
                    <th>{t`How it ended`}</th>
                    <th />
                  </tr>
                </thead>
                <tbody>
                  {all.map((one) => (
                    <tr key={`${one.machine_id} ${one.pid} ${one.request} ${one.time}`}>
                      <td>{clock(one.time)}</td>
                      <td>
                        {cell(one.comm)} <span className="soft">{one.hostname}</span>
                      </td>
                      <td className="number">{one.duration_ns ? duration(one.duration_ns) : "–"}</td>
                      <td className="number">{one.ttft_ns ? duration(one.ttft_ns) : "–"}</td>
                      <td className="number">{one.token_rate?.toFixed(1) ?? "–"}</td>
                      <td className="number">{count(one.prompt_tokens)}</td>
                      <td className="number">{count(one.cached_tokens)}</td>
                      <td className="number">{count(one.generated_tokens)}</td>
                      <td>{cell(one.ended)}</td>
                      <td>
                        <Link to="/explore/$stream" params={{ stream: "llama_token" }} search={(before) => ({ ...before, where: `pid = ${one.pid} and request = ${one.request}` })}>
                          <Trans>its tokens</Trans>
                        </Link>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
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
              <table className="plain">
                <tbody>
                  {all.map((one) => (
                    <tr key={`${one.time} ${one.path}`}>
                      <td>{clock(one.time)}</td>
                      <td className="break mono">{cell(one.path)}</td>
                      <td className="number">{bytes(one.file_bytes)}</td>
                      <td className="number">{duration(one.duration_ns)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
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
  const [search] = useAddress();
  return useQuery({
    queryKey: ["newest", stream, limit, search.since, search.until, search.machine],
    queryFn: async ({ signal }) => {
      const query = { ...asked(search), machine: search.machine, limit };
      const call = api.GET("/api/v1/events/{stream}", { params: { path: { stream }, query }, signal });
      return (await data(call)).events as unknown as T[];
    },
    refetchInterval: isLive(search) && 10_000,
    placeholderData: (before) => before,
  });
}
