import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { Chart } from "../parts/chart";
import { count } from "../parts/format";
import { useMarks } from "../parts/marks";
import { useAddress } from "../parts/search";
import { linesOf } from "../parts/points";
import { useAllTotals } from "../parts/series";
import { Empty } from "../parts/states";
import { seconds, step, timesOf } from "../parts/times";
import { activeTasks } from "../tasks/tasks.api";

const MOST = 8; // streams with a line
const ofStream = (stream: string) => (
  <Link to="/explore/$stream" params={{ stream }}>
    {stream}
  </Link>
);

/** Events a second of what is recorded now. */
export function Rates() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const tasks = useQuery(activeTasks).data;
  const marks = useMarks();
  const streams = useMemo(() => {
    const books = (tasks ?? []).flatMap((task) => task.streams);
    const largest = books.filter((one) => one.stored > 0).sort((one, other) => other.stored - one.stored);
    return [...new Set(largest.map((one) => one.stream))];
  }, [tasks]);
  const recorded = streams.slice(0, MOST);
  const hidden = streams.length - recorded.length;
  const answers = useAllTotals(recorded, { series: true });
  const groups = answers.map((answer) => answer.data?.groups[0]);
  const known = answers.map((answer) => answer.dataUpdatedAt).join() + recorded.join();
  const every = seconds(step(timesOf(search), true)) ?? 60;
  const { times, lines } = useMemo(
    () =>
      linesOf(
        recorded.flatMap((name, number) => (groups[number] ? [{ name, cell: "count", group: groups[number] }] : [])),
        every,
        1 / every,
      ),
    [known, every], // eslint-disable-line react-hooks/exhaustive-deps -- the groups are new objects at each answer
  );
  const { since, until } = timesOf(search);
  return (
    <section className="card">
      <h2>
        <Trans>Events a second</Trans>
      </h2>
      {recorded.length === 0 && tasks !== undefined ? (
        <Empty title={<Trans>Nothing is recorded now</Trans>}>
          <Link to="/start">
            <Trans>Start a task</Trans>
          </Link>
        </Empty>
      ) : (
        <Chart
          label={t`Events a second by stream`}
          times={times}
          lines={lines.length ? lines.map((line) => ({ ...line, link: ofStream })) : [{ label: "…", values: [] }]}
          marks={marks}
          format={count}
          since={since.getTime() / 1000}
          until={until.getTime() / 1000}
          onBrush={(begin, end) => change({ since: new Date(begin * 1000).toISOString(), until: new Date(end * 1000).toISOString() })}
        />
      )}
      {hidden > 0 && (
        <Link to="/explore" className="soft">
          <Trans>{hidden} hidden: all streams</Trans>
        </Link>
      )}
    </section>
  );
}
