import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { includes, me } from "../api/session";
import { useAddress } from "../parts/search";
import { Shown } from "../parts/states";
import { activeTasks, allTasks } from "./tasks.api";
import { TaskTable } from "./tasktable";

/** What is recorded, and was. */
export function Tasks() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const { data: who } = useQuery(me);
  const ended = search.view === "all";
  const all = useQuery({ ...allTasks, enabled: ended });
  const active = useQuery({ ...activeTasks, enabled: !ended });
  const found = ended ? all : active;
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Tasks</Trans>
        </h1>
        <button type="button" aria-pressed={!ended} onClick={() => change({ view: undefined })}>
          {t`Active`}
        </button>
        <button type="button" aria-pressed={ended} onClick={() => change({ view: "all" })}>
          {t`All`}
        </button>
        <span className="spring" />
        {includes(who?.role, "operator") && (
          <Link to="/start" className="button">
            <Trans>Start a task</Trans>
          </Link>
        )}
      </header>
      <section className="card scroll">
        <Shown of={found} height={240}>
          {(tasks) => <TaskTable withNode tasks={tasks.filter((task) => !search.machine || [task.hostname, task.node].includes(search.machine))} />}
        </Shown>
      </section>
    </div>
  );
}
