import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { Node } from "../api/answers";
import { api, data } from "../api/client";
import { nameAmong, nodes } from "../nodes/nodes.api";
import { useFilterAmong } from "../parts/asked";
import { cell, clock, duration, moment, visible } from "../parts/format";
import { named } from "../parts/process";
import { useAddress } from "../parts/search";
import { Shown } from "../parts/states";
import { Table } from "../parts/table";
import { askedPart, isLive } from "../parts/times";
import { Remedy } from "./remedy";
import { sentenceOf } from "./sentence";

const TELLING = ["why_process_summary", "sched_process_summary"]; // the streams that tell of a machine's processes

/** What the chosen machine, or the only one, did in the window; of several, first which one. */
export function Machine() {
  const [search] = useAddress();
  const known = useQuery(nodes);
  if (search.machine) return <OneMachine />;
  return (
    <Shown of={known} height={200}>
      {(all) => (all.length > 1 ? <Several known={all} /> : <OneMachine />)}
    </Shown>
  );
}

function Several({ known }: { known: Node[] }) {
  return (
    <section className="card">
      <h2>
        <Trans>The machine in this window</Trans>
      </h2>
      <p className="soft">
        <Trans>Several machines are known. Which one?</Trans>
      </p>
      <ul className="row">
        {known.map((node) => (
          <li key={node.machine_id}>
            <Link to="/why" search={(before) => ({ ...before, machine: nameAmong(known, node) })}>
              {visible(node.hostname)}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Which processes of a machine used its CPUs, and which waited for them. */
function OneMachine() {
  const { t, i18n } = useLingui();
  const [search] = useAddress();
  const { since, until, brushed, machine } = search;
  const { where, ready } = useFilterAmong(TELLING, t`The machine in this window`);
  const found = useQuery({
    queryKey: ["why machine", since, until, brushed, machine, where],
    queryFn: ({ signal }) => data(api.GET("/api/v1/why", { params: { query: { ...askedPart(search), machine, where } }, signal })),
    enabled: ready,
    refetchInterval: isLive(search) && 15_000,
    placeholderData: (before) => before,
  });
  return (
    <section className="card scroll">
      <h2>
        <Trans>The machine in this window</Trans>
      </h2>
      <Shown of={found} height={200}>
        {(answer) => (
          <>
            <p className="soft">
              {moment(answer.since)} – {clock(answer.until)}
            </p>
            <p className="sentence">{cell(sentenceOf(i18n, answer.sentence))}</p>
            {answer.not_recorded.map((one) => (
              <Remedy key={one.stream} lacks={one} machine={answer.machine_id} pid={null} />
            ))}
            {answer.processes.length > 0 && (
              <Table
                rows={answer.processes}
                keyOf={(one) => `${one.pid} ${one.start_ns}`}
                fields={[
                  {
                    name: t`Program`,
                    show: (one) => (
                      <Link to="/why" search={(before) => ({ ...before, ...named(one.pid, one.start_ns), machine: answer.machine_id })}>
                        {cell(one.name)} <span className="soft">{one.pid}</span>
                      </Link>
                    ),
                  },
                  { name: t`on a CPU`, number: true, show: (one) => duration(one.on_cpu_ns) },
                  { name: t`waiting for a CPU`, number: true, show: (one) => duration(one.run_queue_ns) },
                  { name: t`blocked`, number: true, show: (one) => duration(one.blocked_ns) },
                ]}
              />
            )}
            {answer.processes_hidden > 0 && (
              <p className="soft">
                <Trans>{answer.processes_hidden} more processes are hidden</Trans>
              </p>
            )}
          </>
        )}
      </Shown>
    </section>
  );
}
