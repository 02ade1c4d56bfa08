import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";

import { streams } from "../api/catalogue";
import { kindOf, type Stream } from "../api/columns";
import { address } from "../api/client";
import { useAsked } from "../parts/asked";
import { meaning } from "../parts/meaning";
import { NotBefore } from "../parts/notbefore";
import { useAddress } from "../parts/search";
import { Empty, Loading, Shown } from "../parts/states";
import { readSelection, timesOf } from "../parts/times";
import { activeTasks } from "../tasks/tasks.api";
import { Against, othersOf } from "./against";
import { FlamePicture } from "./picture";

/** Where time or memory went, by call stack; this window against the one before it. */
export function Flames() {
  const found = useQuery({ ...streams, select: (all) => all.filter((one) => one.flame) });
  const { stream: name } = useParams({ strict: false });
  const tasks = useQuery(activeTasks).data;
  const recorded = new Set((tasks ?? []).flatMap((task) => task.streams.map((books) => books.stream)));
  return (
    <div className="screen">
      <Shown of={found} height={400}>
        {(all) => {
          const stream = all.find((one) => one.name === name) ?? (name ? undefined : (all.find((one) => recorded.has(one.name)) ?? all[0]));
          return stream ? <OfStream key={stream.name} stream={stream} all={all} /> : <Empty title={<Trans>No stream with stacks has this name</Trans>}>{name}</Empty>;
        }}
      </Shown>
    </div>
  );
}

function OfStream({ stream, all }: { stream: Stream; all: Stream[] }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const navigate = useNavigate();
  const of = useAsked(stream.name);
  const weights = stream.columns.filter((one) => ["ns", "bytes"].includes(one.unit) && kindOf(one) === "whole" && !["ktime_ns", "start_ns", "interval_ns"].includes(one.name));
  const by = search.by && weights.some((one) => one.name === search.by) ? search.by : (stream.flame?.weight ?? undefined);
  const whole = timesOf(search);
  const others = othersOf(search.against, readSelection(search.brushed) ?? whole, whole);
  const against = others && { against_since: others.since.toISOString(), against_until: others.until.toISOString(), against_where: of.now().where ?? "" };
  const query = { ...of.now(), by: search.by === "count" ? "count" : by, ...against };
  const key = [...of.key, search.against];
  return (
    <>
      <header>
        <h1>
          <Trans>Flames</Trans>
        </h1>
        <select
          aria-label={t`Stream`}
          value={stream.name}
          onChange={(event) => void navigate({ to: "/flames/$stream", params: { stream: event.target.value }, search: { against: search.against } })}
        >
          {all.map((one) => (
            <option key={one.name} value={one.name}>
              {meaning(one.flame?.title ?? "")} ({one.name})
            </option>
          ))}
        </select>
        <select aria-label={t`What is added up`} value={search.by ?? by ?? "count"} onChange={(event) => change({ by: event.target.value })}>
          <option value="count">{t`number of rows`}</option>
          {weights.map((one) => (
            <option key={one.name}>{one.name}</option>
          ))}
        </select>
        <Against />
        <span className="spring" />
        {["pprof", "speedscope", "folded", "svg"].map((format) => (
          <a key={format} className="button" href={address(`flamegraph/${stream.name}`, { ...query, format })} download={`${stream.name}.${format}`}>
            {format}
          </a>
        ))}
      </header>
      <section className="card">
        <NotBefore stream={stream.name} />
        {of.ready ? <FlamePicture stream={stream} query={query} cacheKey={key} difference={others !== undefined} live={of.live} /> : <Loading height={420} />}
      </section>
      <p className="soft">
        <Link to="/explore/$stream" params={{ stream: stream.name }} search={(search) => search}>
          <Trans>The rows of this graph</Trans>
        </Link>
      </p>
    </>
  );
}
