import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, data } from "../api/client";
import { includes, me } from "../api/session";
import { useAddress } from "../parts/search";
import { Failed, Shown } from "../parts/states";
import { activeTasks, allTasks, tasksOfGroup } from "./tasks.api";
import { TaskTable } from "./tasktable";

/** What is recorded, and was; or the tasks that were started together. */
export function Tasks() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const { data: who } = useQuery(me);
  const { group, view } = search;
  const shown = group ? "group" : view === "all" ? "all" : "active";
  const all = useQuery({ ...allTasks, enabled: shown === "all" });
  const active = useQuery({ ...activeTasks, enabled: shown === "active" });
  const together = useQuery({ ...tasksOfGroup(group ?? ""), enabled: shown === "group" });
  const found = { all, active, group: together }[shown];
  const mayStart = includes(who?.role, "operator");
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Tasks</Trans>
        </h1>
        <button type="button" aria-pressed={shown === "active"} onClick={() => change({ view: undefined, group: undefined })}>
          {t`Active`}
        </button>
        <button type="button" aria-pressed={shown === "all"} onClick={() => change({ view: "all", group: undefined })}>
          {t`All`}
        </button>
        {group && (
          <button type="button" aria-pressed>
            {t`Started together`}
          </button>
        )}
        <span className="spring" />
        {group && mayStart && together.data?.some((task) => task.wanted) && <StopAll group={group} />}
        {mayStart && (
          <Link to="/start" className="button">
            <Trans>Start a task</Trans>
          </Link>
        )}
      </header>
      <section className="card scroll">
        <Shown of={found} height={240}>
          {(tasks) => <TaskTable withNode tasks={tasks.filter((task) => group || !search.machine || [task.hostname, task.node].includes(search.machine))} />}
        </Shown>
      </section>
    </div>
  );
}

function StopAll({ group }: { group: string }) {
  const queries = useQueryClient();
  const stop = useMutation({
    mutationFn: () => data(api.POST("/api/v1/groups/{group_id}/stop", { params: { path: { group_id: group } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["tasks"] }),
  });
  return (
    <>
      {stop.error && <Failed error={stop.error} />}
      <button type="button" className="danger" disabled={stop.isPending} onClick={() => stop.mutate()}>
        <Trans>Stop all</Trans>
      </button>
    </>
  );
}
