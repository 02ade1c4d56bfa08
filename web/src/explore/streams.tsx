import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { streams } from "../api/catalogue";
import { Find } from "../parts/find";
import { count } from "../parts/format";
import { meaning } from "../parts/meaning";
import { useAddress } from "../parts/search";
import { Shown } from "../parts/states";
import { allTasks } from "../tasks/tasks.api";
import "./explore.css";

/** All streams, those with rows first. */
export function Streams() {
  const { t } = useLingui();
  const found = useQuery(streams);
  const tasks = useQuery(allTasks).data ?? [];
  const { find = "" } = useAddress()[0];
  const stored = new Map<string, number>();
  for (const books of tasks.flatMap((task) => task.streams)) {
    stored.set(books.stream, (stored.get(books.stream) ?? 0) + books.stored);
  }
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Explore</Trans>
        </h1>
        <span className="spring" />
        <Find label={t`Find a stream`} placeholder={t`Find a stream`} />
      </header>
      <Shown of={found} height={400}>
        {(all) => (
          <ul className="streams">
            {all
              .filter((stream) => `${stream.name} ${stream.meaning} ${meaning(stream.meaning)} ${stream.probe}`.toLowerCase().includes(find.toLowerCase()))
              .sort((one, other) => Number(stored.has(other.name)) - Number(stored.has(one.name)))
              .map((stream) => (
                <li key={stream.name}>
                  <Link to="/explore/$stream" params={{ stream: stream.name }} className="card">
                    <b>{stream.name}</b> <span className="badge">{stream.probe}</span>
                    {stored.has(stream.name) && <span className="badge good">{count(stored.get(stream.name) ?? 0)}</span>}
                    <p className="soft">{meaning(stream.meaning)}</p>
                  </Link>
                </li>
              ))}
          </ul>
        )}
      </Shown>
    </div>
  );
}
