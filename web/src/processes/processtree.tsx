import { Trans, useLingui } from "@lingui/react/macro";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { useFilterAmong } from "../parts/asked";
import { Find } from "../parts/find";
import { useAddress } from "../parts/search";
import { Empty, Partial, Shown } from "../parts/states";
import { askedPart, isLive } from "../parts/times";
import "./processes.css";
import { placed, type Process, seen } from "./tree";
import { Tree } from "./treetable";

const TELLING = ["sched_process_summary", "exec", "exit"]; // the streams that tell of processes

interface Props {
  /** Undefined: not known yet. */
  machine: string | undefined;
  /** How many are shown at most. */
  most?: number;
}

/** The processes of a machine as a tree that is searched and folded. */
export function ProcessTree({ machine, most }: Props) {
  const { t } = useLingui();
  const [search] = useAddress();
  const { where, ready } = useFilterAmong(TELLING, t`Processes`);
  const found = useQuery({
    queryKey: ["process tree", machine, search.since, search.until, search.brushed, where],
    queryFn: ({ signal }) => data(api.GET("/api/v1/processes", { params: { query: { ...askedPart(search), machine, where } }, signal })),
    enabled: machine !== undefined && ready,
    refetchInterval: isLive(search) && 5000,
    placeholderData: keepPreviousData,
  });
  return (
    <Shown of={found} height={500}>
      {(answer) => <Found answer={answer} most={most} />}
    </Shown>
  );
}

function Found({ answer, most }: { answer: components["schemas"]["Processes"]; most?: number }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const closed: ReadonlySet<string> = new Set(search.closed?.split(",").filter(Boolean));
  const words = (search.find ?? "").toLowerCase().split(/\s+/);
  const matches = (one: Process) => {
    const text = `${one.pid} ${one.comm ?? ""} ${one.cmdline?.join(" ") ?? one.exe ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const toggle = (key: string) => {
    const next = closed.has(key) ? [...closed].filter((one) => one !== key) : [...closed, key];
    change({ closed: next.join(",") || undefined }, true);
  };
  return (
    <>
      <div className="row">
        <Find label={t`Find a process`} placeholder={t`name, command or pid`} />
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
        <Tree answer={answer} tree={seen(placed(answer.processes), closed, matches)} closed={closed} onToggle={toggle} most={most} />
      )}
    </>
  );
}
