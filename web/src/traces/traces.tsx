import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { streams } from "../api/catalogue";
import { address, bytes } from "../api/client";
import { useCards } from "../parts/cards";
import { clock, moment, visible } from "../parts/format";
import { meaning } from "../parts/meaning";
import { useAddress } from "../parts/search";
import { Failed, Shown } from "../parts/states";
import { askedPart } from "../parts/times";
import { nodes } from "../nodes/nodes.api";
import { allTasks } from "../tasks/tasks.api";
import { commandOf } from "./command";
import { Command } from "../parts/command";
import { handOver, open } from "./perfetto";
import "./traces.css";

/** Chooses streams, machines and a window, and hands the trace to Perfetto. */
export function Traces() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const tasks = useQuery(allTasks).data ?? [];
  const recorded = new Set(tasks.flatMap((task) => task.streams.filter((books) => books.stored > 0).map((books) => books.stream)));
  const found = useQuery({ ...streams, select: (all) => all.filter((one) => recorded.has(one.name) || search.with?.split(",").includes(one.name)) });
  const [state, setState] = useState<"" | "fetching" | "waiting" | "done">("");
  const [error, setError] = useState<unknown>();
  const chosen = search.with?.split(",").filter(Boolean) ?? [];
  const known = useQuery(nodes).data ?? [];
  const machines = search.machine ? [] : (search.machines?.split(",").filter(Boolean) ?? []);
  const query = { ...askedPart(search), machine: machines.join(",") || search.machine, task: search.task, streams: chosen.join(",") };
  const { since, until } = query;
  useCards([{ name: t`Traces`, lacks: [] }]);
  const toggle = (name: string) => {
    const next = chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name];
    change({ with: next.join(",") || undefined }, true);
  };
  const toggleMachine = (id: string) => {
    const next = machines.includes(id) ? machines.filter((one) => one !== id) : [...machines, id];
    change({ machines: next.join(",") || undefined }, true);
  };
  const perfetto = async () => {
    const tab = open(); // at once: later, a browser takes it for a pop-up
    setError(undefined);
    try {
      if (!tab) throw new Error(t`The browser did not open a tab for ui.perfetto.dev; allow pop-ups of this page`);
      setState("fetching");
      const trace = await bytes("trace", { ...query, format: "perfetto" });
      setState("waiting");
      await handOver(tab, trace, `SCOPE ${moment(since)} – ${clock(until)}`);
      setState("done");
    } catch (failed) {
      tab?.close();
      setError(failed);
      setState("");
    }
  };
  const busy = state === "fetching" || state === "waiting";
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Traces</Trans>
        </h1>
        <span className="soft">
          {moment(since)} – {clock(until)}
        </span>
      </header>
      <section className="card">
        <h2>
          <Trans>Streams</Trans>
        </h2>
        <Shown of={found} height={200}>
          {(all) => (
            <div className="trace-streams">
              {all.map((stream) => (
                <label key={stream.name}>
                  <input type="checkbox" checked={chosen.includes(stream.name)} onChange={() => toggle(stream.name)} />
                  <span>
                    <b>{stream.name}</b> {meaning(stream.meaning)}
                  </span>
                </label>
              ))}
            </div>
          )}
        </Shown>
      </section>
      {!search.machine && known.length > 1 && (
        <section className="card">
          <h2>
            <Trans>Machines</Trans>
          </h2>
          <div className="trace-streams">
            {known.map((node) => (
              <label key={node.machine_id}>
                <input type="checkbox" checked={machines.includes(node.machine_id)} onChange={() => toggleMachine(node.machine_id)} />
                <span>
                  <b>{visible(node.hostname)}</b> <span className="soft mono">{node.machine_id.slice(0, 8)}</span>
                </span>
              </label>
            ))}
          </div>
          {machines.length === 0 && (
            <p className="soft">
              <Trans>None is chosen: the trace has all.</Trans>
            </p>
          )}
        </section>
      )}
      <section className="card row">
        <button type="button" className="primary" disabled={!chosen.length || busy} onClick={() => void perfetto()}>
          <Trans>Open in Perfetto</Trans>
        </button>
        <a className="button" aria-disabled={!chosen.length} href={chosen.length ? address("trace", { ...query, format: "perfetto" }) : undefined} download="scope.pftrace">
          <Trans>Download</Trans>
        </a>
        <a className="button" aria-disabled={!chosen.length} href={chosen.length ? address("trace", { ...query, format: "chrome" }) : undefined} download="scope.json">
          <Trans>Download as Chrome JSON</Trans>
        </a>
        <span role="status" className="soft">
          {state === "fetching" && t`The server writes the trace …`}
          {state === "waiting" && t`Perfetto loads …`}
          {state === "done" && t`Handed over.`}
        </span>
      </section>
      <p className="soft">
        <Trans>The trace goes from this page to the other tab, and is not uploaded. The same on the command line:</Trans>
      </p>
      <Command text={commandOf(chosen, query)} />
      {Boolean(error) && <Failed error={error} again={() => void perfetto()} />}
    </div>
  );
}
