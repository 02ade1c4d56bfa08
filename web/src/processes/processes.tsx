import { Trans, useLingui } from "@lingui/react/macro";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { nodes } from "../nodes/nodes.api";
import { useCards } from "../parts/cards";
import { visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Partial, Shown } from "../parts/states";
import { askedPart, isLive } from "../parts/times";
import "./processes.css";
import { placed, type Process, seen } from "./tree";
import { Tree } from "./treetable";

/** The processes of a machine as a tree: whose children they are, when they began and ended, and their time on CPUs. */
export function Processes() {
  const { t } = useLingui();
  const [search] = useAddress();
  const machines = useQuery(nodes).data;
  useCards([{ name: t`Processes`, lacks: [] }]);
  const machine = search.machine ?? machines?.find((one) => one.connected)?.machine_id ?? machines?.[0]?.machine_id;
  const found = useQuery({
    queryKey: ["process tree", machine, search.since, search.until, search.brushed],
    queryFn: ({ signal }) => data(api.GET("/api/v1/processes", { params: { query: { ...askedPart(search), machine } }, signal })),
    enabled: machine !== undefined,
    refetchInterval: isLive(search) && 5000,
    placeholderData: keepPreviousData,
  });
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Processes</Trans>
        </h1>
        <span className="soft">{visible(machines?.find((one) => one.machine_id === machine || one.hostname === machine)?.hostname ?? "")}</span>
      </header>
      {machines?.length === 0 ? (
        <Empty title={<Trans>No machine has joined yet</Trans>} />
      ) : (
        <Shown of={found} height={500}>
          {(answer) => <Found answer={answer} />}
        </Shown>
      )}
    </div>
  );
}

function Found({ answer }: { answer: components["schemas"]["Processes"] }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const words = (search.find ?? "").toLowerCase().split(/\s+/);
  const matches = (one: Process) => {
    const text = `${one.pid} ${one.comm ?? ""} ${one.cmdline?.join(" ") ?? one.exe ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const toggle = (key: string) => setClosed((before) => new Set(before.has(key) ? [...before].filter((one) => one !== key) : [...before, key]));
  return (
    <section className="card">
      <div className="row">
        <input
          type="search"
          aria-label={t`Find a process`}
          placeholder={t`name, command or pid`}
          value={search.find ?? ""}
          onChange={(event) => change({ find: event.target.value || undefined }, true)}
        />
        {answer.not_recorded.map((probe) => (
          <Link key={probe} to="/start" search={{ machine: answer.machine_id, probe }}>
            {probe === "process" ? <Trans>Begins and ends were not recorded: start the probe process</Trans> : <Trans>Times on CPUs were not recorded: start the probe {probe}</Trans>}
          </Link>
        ))}
      </div>
      {!answer.complete && (
        <Partial>
          <Trans>Not all processes of this window are listed: choose a shorter one.</Trans>
        </Partial>
      )}
      {answer.processes.length === 0 ? (
        <Empty title={<Trans>Nothing recorded in this window</Trans>} />
      ) : (
        <Tree answer={answer} tree={seen(placed(answer.processes), closed, matches)} closed={closed} onToggle={toggle} />
      )}
    </section>
  );
}
