import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";

import { streams } from "../api/catalogue";
import type { Stream } from "../api/columns";
import { meaning } from "../parts/meaning";
import { useAddress } from "../parts/search";
import { Empty, Shown } from "../parts/states";
import { readSelection } from "../parts/times";
import { Brushed } from "./brushed";
import { Columns } from "./columns";
import { Downloads } from "./downloads";
import { useRows } from "./explore.api";
import "./explore.css";
import { Groups } from "./groups";
import { LiveRows } from "./live";
import { OpenedRow, useOpen } from "./opened";
import { Picture } from "./picture";
import { RowPages } from "./rowpages";

const VIEWS = ["rows", "groups", "live"] as const;

/** Any stream: how long its rows took over time, what differs in a part of it, its rows and its groups. */
export function Explore() {
  const { stream: name } = useParams({ from: "/inside/explore/$stream" });
  const found = useQuery({ ...streams, select: (all) => all.find((one) => one.name === name) ?? null });
  return (
    <div className="screen">
      <Shown of={found} height={400}>
        {(stream) => (stream ? <OfStream key={stream.name} stream={stream} /> : <Empty title={<Trans>No stream has this name</Trans>}>{name}</Empty>)}
      </Shown>
    </div>
  );
}

function OfStream({ stream }: { stream: Stream }) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const open = useOpen(stream);
  const navigate = useNavigate();
  const all = useQuery(streams).data ?? [];
  const brushed = readSelection(search.brushed);
  const view = VIEWS.find((one) => one === search.view) ?? "rows";
  const rows = useRows(stream);
  const names = { rows: t`Rows`, groups: t`Groups`, live: t`Live tail` };
  return (
    <>
      <header>
        <h1>
          <select
            className="stream-choice"
            aria-label={t`Stream`}
            value={stream.name}
            onChange={(event) => void navigate({ to: "/explore/$stream", params: { stream: event.target.value }, search: {} })}
          >
            {all.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </h1>
        <span className="soft">{meaning(stream.meaning)}</span>
        {search.task && (
          <button type="button" title={search.task} onClick={() => change({ task: undefined })}>
            <Trans>Of one task: show all</Trans>
          </button>
        )}
        <span className="spring" />
        {stream.flame && (
          <Link to="/flames/$stream" params={{ stream: stream.name }} search={(before) => before} className="button">
            <Trans>Flame graph</Trans>
          </Link>
        )}
      </header>
      <section className="card">
        <Picture stream={stream} selection={brushed} />
      </section>
      {brushed && <Brushed stream={stream} selection={brushed} />}
      <section className="card">
        <div className="row views" role="group" aria-label={t`View`}>
          {VIEWS.map((one) => (
            <button key={one} type="button" aria-pressed={one === view} onClick={() => change({ view: one === "rows" ? undefined : one })}>
              {names[one]}
            </button>
          ))}
          <span className="spring" />
          {view !== "groups" && <Columns stream={stream} />}
          <Downloads stream={stream} />
        </div>
        {view === "rows" && <RowPages stream={stream} pages={rows} onOpen={open} />}
        {view === "groups" && <Groups stream={stream} />}
        {view === "live" && <LiveRows stream={stream} onOpen={open} />}
      </section>
      <OpenedRow stream={stream} />
    </>
  );
}
