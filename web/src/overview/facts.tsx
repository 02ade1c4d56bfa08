import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { api, data } from "../api/client";
import { nodes } from "../nodes/nodes.api";
import { bytes, count } from "../parts/format";
import { useLosses } from "../parts/losses";
import type { Search } from "../parts/search";
import { activeTasks } from "../tasks/tasks.api";

const storage = {
  queryKey: ["storage"],
  queryFn: ({ signal }: { signal: AbortSignal }) => data(api.GET("/api/v1/storage", { signal })),
  refetchInterval: 30_000,
};

export function Facts() {
  const machines = useQuery(nodes);
  const tasks = useQuery(activeTasks);
  const stored = useQuery(storage);
  const { losses, more } = useLosses();
  const up = machines.data?.filter((node) => node.connected).length;
  const running = tasks.data?.filter((task) => task.state === "running").length;
  const lost = losses.reduce((sum, loss) => sum + (loss.count ?? 0), 0);
  const gaps = losses.filter((loss) => loss.count === null).length;
  const away = (machines.data?.length ?? 0) - (up ?? 0);
  return (
    <dl className="facts">
      <Fact name={<Trans>Nodes up</Trans>} to="/nodes" wrong={away > 0}>
        {up ?? "…"}
        <small> / {machines.data?.length ?? "…"}</small>
      </Fact>
      <Fact name={<Trans>Tasks recording</Trans>} to="/tasks" wrong={running !== undefined && running < (tasks.data?.length ?? 0)}>
        {running ?? "…"}
        <small> / {tasks.data?.length ?? "…"}</small>
      </Fact>
      <Fact name={<Trans>Lost in this window</Trans>} to="/losses" wrong={losses.length > 0}>
        {more && "≥ "}
        {count(lost)}
        {gaps > 0 && (
          <small>
            {" "}
            + <Trans>{gaps} gaps</Trans>
          </small>
        )}
      </Fact>
      <Fact name={<Trans>Storage</Trans>} to="/users" search={{ view: "storage" }} wrong={Boolean(stored.data?.problem)}>
        {stored.data ? bytes(stored.data.bytes ?? 0) : "…"}
        <small> / {stored.data ? bytes(stored.data.limit_bytes) : "…"}</small>
      </Fact>
      <Fact name={<Trans>Recorded since</Trans>} to="/explore">
        {stored.data?.oldest_day ?? "–"}
      </Fact>
    </dl>
  );
}

interface FactProps {
  name: ReactNode;
  to: string;
  search?: Search;
  wrong?: boolean;
  children: ReactNode;
}

function Fact({ name, to, search, wrong = false, children }: FactProps) {
  return (
    <div className="card fact">
      <dt>{name}</dt>
      <dd>
        <Link to={to} search={search} className={wrong ? "warn" : ""}>
          {children}
        </Link>
      </dd>
    </div>
  );
}
