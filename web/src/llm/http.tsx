import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { bytes, cell, clock, duration } from "../parts/format";
import { Empty, Shown } from "../parts/states";
import { Table } from "../parts/table";
import { type HttpRequest, useNewest } from "./llm.api";
import { Status } from "./requests";

const SHOWN = 20;
const told = (ns: number | null) => (ns === null ? "–" : duration(ns));

/** The newest requests over HTTP to servers of models. */
export function HttpRequests() {
  const { t } = useLingui();
  const requests = useNewest<HttpRequest>("ollama_request", SHOWN);
  return (
    <section className="card scroll">
      <h2>
        <Trans>Requests over HTTP</Trans>
      </h2>
      <Shown of={requests} height={200}>
        {(all) =>
          all.length === 0 ? (
            <Empty title={<Trans>No requests in this window</Trans>}>
              <Link to="/start" search={{ probe: "ollama" }}>
                <Trans>Start the probe {"ollama"}</Trans>
              </Link>
            </Empty>
          ) : (
            <Table
              rows={all}
              keyOf={(one) => `${one.machine_id} ${one.pid} ${one.request} ${one.time}`}
              fields={[
                { name: t`Began`, show: (one) => clock(one.time) },
                { name: t`Server`, show: (one) => <>{cell(one.comm)} <span className="soft">{one.pid}</span></> },
                { name: t`Request`, className: "break", show: (one) => <>{cell(one.method)} {cell(one.path)}</> },
                { name: t`status`, number: true, show: (one) => <Status status={one.status} /> },
                { name: t`took`, number: true, show: (one) => told(one.duration_ns) },
                { name: t`body after`, number: true, show: (one) => told(one.first_body_ns) },
                { name: t`longest gap`, number: true, show: (one) => told(one.longest_gap_ns) },
                { name: t`received`, number: true, show: (one) => bytes(one.request_bytes) },
                { name: t`sent`, number: true, show: (one) => bytes(one.response_bytes) },
                { name: t`How it ended`, show: (one) => cell(one.ended) },
                {
                  show: (one) => (
                    <Link to="/explore/$stream" params={{ stream: "ollama_chunk" }} search={(before) => ({ ...before, view: undefined, where: `pid = ${one.pid} and request = ${one.request}` })}>
                      <Trans>its parts</Trans>
                    </Link>
                  ),
                },
              ]}
            />
          )
        }
      </Shown>
    </section>
  );
}
