import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { ApiError } from "../api/problem";
import { includes, me } from "../api/session";
import { nodes, probes } from "../nodes/nodes.api";
import { useSteady } from "../nodes/steady";
import { Command } from "../parts/command";
import { useAddress } from "../parts/search";
import { Empty, Failed } from "../parts/states";
import { commandOf } from "./command";
import { useForm } from "./form";
import { How } from "./how";
import { having, readLabels, writeLabels } from "./labels";
import { Machines } from "./machines";
import { Picker } from "./picker";
import { Probes } from "./probes";
import { type Group, started } from "./start.api";
import { Started } from "./started";
import "./tasks.css";
import { Templates } from "./templates";

/** Whom to watch, with which probe or template, how; and the command that does the same. */
export function Start() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const { data: who } = useQuery(me);
  const machines = useQuery(nodes).data ?? [];
  const node = useSteady(machines, search.machine) ?? "";
  const labels = search.labels === undefined ? undefined : readLabels(search.labels);
  const meant = labels && (search.labels ? having(machines, labels) : []);
  const asked = useSteady(meant ?? [], meant ? undefined : node) ?? meant?.[0]?.machine_id ?? node; // whose probes are offered
  const offered = useQuery({ ...probes(asked), enabled: asked !== "" });
  const [{ target, options, duration }, set] = useForm();
  const [group, setGroup] = useState<Group>();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const template = search.template;
  const probe = offered.data?.probes.find((one) => one.name === search.probe);
  const where = search.only ?? "";
  const wish = {
    node: node || null,
    labels,
    probe: probe?.name ?? "",
    template: template || undefined,
    target,
    options,
    where: where || null,
    duration: Number(duration) || null,
  };
  const start = useMutation({
    mutationFn: () => started(wish),
    onSuccess: async (begun) => {
      await queries.invalidateQueries({ queryKey: ["tasks"] });
      if ("task" in begun) await navigate({ to: "/tasks/$task", params: { task: begun.task } });
      else if (begun.refused.length > 0) setGroup(begun);
      else await navigate({ to: "/tasks", search: { group: begun.group_id } });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setGroup(undefined);
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
  const isWhole = (template || probe) && (!meant || meant.length > 0);
  const hostname = machines.find((one) => one.machine_id === node)?.hostname ?? node;
  return (
    <form className="screen" onSubmit={submit}>
      <header>
        <h1>
          <Trans>Start a task</Trans>
        </h1>
      </header>
      {group && <Started group={group} />}
      <div className="cards">
        <section className="card">
          <h2>
            <Trans>1. Machines and processes</Trans>
          </h2>
          <Machines
            nodes={machines}
            node={node}
            labels={labels}
            onNode={(machine) => change({ machine }, true)}
            onLabels={(given) => {
              if (given) set({ target: { ...target, pid: undefined } }); // it is one machine's
              change({ labels: given && writeLabels(given) }, true);
            }}
          />
          <Picker machine={labels ? "" : node} target={target} onChange={(chosen) => set({ target: chosen })} />
        </section>
        <section className="card">
          <h2>
            <Trans>2. Probe or template</Trans>
          </h2>
          <div className="row">
            <button type="button" aria-pressed={template === undefined} onClick={() => change({ template: undefined }, true)}>
              <Trans>A probe</Trans>
            </button>
            <button type="button" aria-pressed={template !== undefined} onClick={() => change({ template: template ?? "" }, true)}>
              <Trans>A template</Trans>
            </button>
          </div>
          {template === undefined ? (
            <Probes
              node={asked}
              chosen={probe?.name}
              onChoose={(name) => {
                change({ probe: name, only: undefined }, true);
                set({ options: {} });
              }}
            />
          ) : (
            <Templates chosen={template} onChoose={(name) => change({ template: name }, true)} />
          )}
        </section>
        <section className="card">
          <h2>
            <Trans>3. How</Trans>
          </h2>
          {template !== undefined ? (
            <p className="soft">
              <Trans>A template has its own options and filters.</Trans>
            </p>
          ) : probe ? (
            <How
              probe={probe}
              options={options}
              where={where}
              onOptions={(given) => set({ options: given })}
              onWhere={(given) => change({ only: given || undefined }, true)}
              problem={start.error instanceof ApiError ? start.error : undefined}
            />
          ) : (
            <p className="soft">{t`Choose a probe.`}</p>
          )}
          <div className="field">
            <label htmlFor="duration">{t`Duration in seconds; empty: until it is stopped`}</label>
            <input id="duration" type="number" min="1" max="316224000" value={duration} onChange={(event) => set({ duration: event.target.value })} />
          </div>
          {start.error && <Failed error={start.error} />}
          <button type="submit" className="primary" disabled={!isWhole || start.isPending}>
            {start.isPending ? t`Starting …` : t`Start`}
          </button>
          {isWhole && (
            <>
              <h2>
                <Trans>The same on the command line</Trans>
              </h2>
              <Command text={commandOf({ ...wish, node: hostname })} />
            </>
          )}
        </section>
      </div>
    </form>
  );
}
