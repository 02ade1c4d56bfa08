import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { api, data } from "../api/client";
import { measured, type Stream } from "../api/columns";
import { useAsked } from "../parts/asked";
import { Chart } from "../parts/chart";
import { count, quantity } from "../parts/format";
import { Heatmap } from "../parts/heatmap";
import { useMarks } from "../parts/marks";
import { NotBefore } from "../parts/notbefore";
import { useAddress } from "../parts/search";
import { linesOf } from "../parts/points";
import { useTotals } from "../parts/series";
import { Empty, Failed, Loading, Partial } from "../parts/states";
import { seconds, type Selection, step, timesOf, writeSelection } from "../parts/times";
import "./explore.css";

const COLUMNS = 160;
const HIGH = 260;

/** How long the rows took, over time; for a stream without durations, how many there were. */
export function Picture({ stream, selection }: { stream: Stream; selection?: Selection }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const column = measured(stream);
  const { key, now, live, ready } = useAsked(stream.name, { whole: true });
  const marks = useMarks(stream.name);
  const answer = useQuery({
    queryKey: ["heatmap", ...key],
    queryFn: ({ signal }) => 
      data(api.GET("/api/v1/heatmap/{stream}", { params: { path: { stream: stream.name }, query: { ...now(), column: column?.name, columns: COLUMNS } }, signal })),
    enabled: column !== undefined && ready,
    refetchInterval: live && !selection && 10_000,
    placeholderData: (before) => before,
  });
  const unit = column?.unit ?? "";
  const select = (brushed: Omit<Selection, "stream"> | undefined) => change({ brushed: brushed && writeSelection({ stream: stream.name, ...brushed }) });
  const box = selection && selection.stream !== stream.name ? { ...selection, least: undefined, most: undefined } : selection; // another column's range
  const format = useMemo(() => (value: number) => quantity(value, unit), [unit]);
  if (!column) return <Rate stream={stream} selection={selection} />;
  if (answer.error && !answer.data) return <Failed error={answer.error} again={() => void answer.refetch()} />;
  if (!answer.data) return <Loading height={HIGH} />;
  const found = answer.data;
  const empty = found.counts.every((one) => one.every((size) => size === 0));
  return (
    <>
      <div className="row picture-head">
        <h2>
          <Trans>
            {column.name} over time
          </Trans>
        </h2>
        <span className="soft">{found.source === "rollups" ? t`from totals by the minute` : t`from rows`}</span>
        <span className="spring" />
        {selection ? (
          <button type="button" onClick={() => select(undefined)}>
            <Trans>End the selection</Trans>
          </button>
        ) : (
          <span className="soft">
            <Trans>Brush an area to see what differs in it</Trans>
          </span>
        )}
      </div>
      <NotBefore stream={stream.name} />
      {!found.complete && (
        <Partial>
          <Trans>Not all rows were counted: the window has too many. Choose a shorter one for exact numbers.</Trans>
        </Partial>
      )}
      {empty ? (
        <div className="picture-empty">
          <Empty title={<Trans>No rows in this window</Trans>}>{search.where && <Trans>The filter may be too narrow.</Trans>}</Empty>
        </div>
      ) : (
        <Heatmap data={found} format={format} marks={marks} selection={box} onSelect={select} height={HIGH} />
      )}
    </>
  );
}

function Rate({ stream, selection }: { stream: Stream; selection?: Selection }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const totals = useTotals({ stream: stream.name, top: 1, series: true, fine: true });
  const marks = useMarks(stream.name);
  const every = seconds(step(timesOf(search), true)) ?? 60;
  const group = totals.data?.groups[0];
  const { times, lines } = useMemo(
    () => linesOf(group ? [{ name: stream.name, cell: "count", group }] : [], every, 1 / every),
    [group, stream.name, every],
  );
  const { since, until } = timesOf(search);
  return (
    <>
      <div className="row picture-head">
        <h2>
          <Trans>Rows a second</Trans>
        </h2>
        <span className="spring" />
        {selection && (
          <button type="button" onClick={() => change({ brushed: undefined })}>
            <Trans>End the selection</Trans>
          </button>
        )}
      </div>
      <NotBefore stream={stream.name} />
      <Chart
        label={t`Rows a second`}
        times={times}
        lines={lines.length ? lines : [{ label: stream.name, values: [] }]}
        marks={marks}
        format={count}
        height={HIGH - 24}
        since={since.getTime() / 1000}
        until={until.getTime() / 1000}
        onBrush={(begin, end) => change({ brushed: writeSelection({ stream: stream.name, since: new Date(begin * 1000), until: new Date(end * 1000) }) })}
      />
    </>
  );
}
