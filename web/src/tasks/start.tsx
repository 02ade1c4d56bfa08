import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { api, data } from "../api/client";
import { ApiError } from "../api/problem";
import { includes, me } from "../api/session";
import { nodes, probes } from "../nodes/nodes.api";
import { Command } from "../parts/command";
import { visible } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Failed, Shown } from "../parts/states";
import { commandOf, type Value } from "./command";
import { Options } from "./options";
import { Picker, type Target } from "./picker";
import "./tasks.css";

/** Whom to watch, with which probe, how; and the command that does the same. */
export function Start() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const { data: who } = useQuery(me);
  const machines = useQuery(nodes).data ?? [];
  const node = search.machine ?? machines.find((one) => one.connected)?.machine_id ?? "";
  const offered = useQuery({ ...probes(node), enabled: machines.length > 0 });
  const [target, setTarget] = useState<Target>(search.pid ? { pid: Number(search.pid) } : {});
  const [options, setOptions] = useState<Record<string, Value>>({});
  const [where, setWhere] = useState("");
  const [duration, setDuration] = useState("");
  const navigate = useNavigate();
  const queries = useQueryClient();
  const probe = offered.data?.probes.find((one) => one.name === search.probe);
  const wish = { node: node || null, probe: probe?.name ?? "", target, options, where: where || null, duration: Number(duration) || null };
  const start = useMutation({
    mutationFn: () => data(api.POST("/api/v1/tasks", { body: wish })),
    onSuccess: async (task) => {
      await queries.invalidateQueries({ queryKey: ["tasks"] });
      await navigate({ to: "/tasks/$task", params: { task: task.task_id } });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.mutate();
  };
  if (who && !includes(who.role, "operator")) {
    return (
      <div className="screen">
        <Empty title={<Trans>Starting a task needs the role operator</Trans>}>
          <Trans>You are {who.role}. An admin can change that under Users.</Trans>
        </Empty>
      </div>
    );
  }
  const wrong = start.error instanceof ApiError ? start.error : undefined;
  return (
    <form className="screen" onSubmit={submit}>
      <header>
        <h1>
          <Trans>Start a task</Trans>
        </h1>
      </header>
      <div className="cards">
        <section className="card">
          <h2>
            <Trans>1. Machine and processes</Trans>
          </h2>
          <select aria-label={t`Machine`} value={node} onChange={(event) => change({ machine: event.target.value }, true)}>
            {machines.map((one) => (
              <option key={one.machine_id} value={one.machine_id}>
                {visible(one.hostname)} {one.connected ? "" : `(${t`away`})`}
              </option>
            ))}
          </select>
          <Picker machine={node} target={target} onChange={setTarget} />
        </section>
        <section className="card">
          <h2>
            <Trans>2. Probe</Trans>
          </h2>
          <Shown of={offered} height={300}>
            {({ probes: all }) => (
              <div className="choices" role="radiogroup" aria-label={t`Probe`}>
                {all.map((one) => (
                  <label key={one.name} className={one.available ? "" : "soft"}>
                    <input
                      type="radio"
                      name="probe"
                      checked={one.name === probe?.name}
                      disabled={!one.available}
                      onChange={() => {
                        change({ probe: one.name }, true);
                        setOptions({});
                      }}
                    />
                    <span>
                      <b>{one.name}</b> {one.meaning}
                      {!one.available && <em className="bad break"> {visible(one.reason ?? "")}</em>}
                    </span>
                  </label>
                ))}
              </div>
            )}
          </Shown>
        </section>
        <section className="card">
          <h2>
            <Trans>3. How</Trans>
          </h2>
          {probe ? <Options probe={probe} values={options} onChange={setOptions} problem={wrong} /> : <p className="soft">{t`Choose a probe.`}</p>}
          <div className="field">
            <label htmlFor="where">{t`Only rows that meet a filter; empty: all`}</label>
            <input id="where" value={where} placeholder="ret < 0 and duration > 1ms" maxLength={4096} onChange={(event) => setWhere(event.target.value)} />
            <span className="bad">{wrong?.of("where")}</span>
          </div>
          <div className="field">
            <label htmlFor="duration">{t`Duration in seconds; empty: until it is stopped`}</label>
            <input id="duration" type="number" min="1" max="316224000" value={duration} onChange={(event) => setDuration(event.target.value)} />
          </div>
          {start.error && <Failed error={start.error} />}
          <button type="submit" className="primary" disabled={!probe || start.isPending}>
            {start.isPending ? t`Starting …` : t`Start`}
          </button>
          {probe && (
            <>
              <h2>
                <Trans>The same on the command line</Trans>
              </h2>
              <Command text={commandOf({ ...wish, node: machines.find((one) => one.machine_id === node)?.hostname ?? node })} />
            </>
          )}
        </section>
      </div>
    </form>
  );
}
