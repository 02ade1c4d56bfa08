import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { useStream } from "../api/catalogue";
import { Brushed } from "../explore/brushed";
import { Picture } from "../explore/picture";
import { count } from "../parts/format";
import { useAddress } from "../parts/search";
import { Empty, Loading } from "../parts/states";
import { readSelection } from "../parts/times";

interface Props {
  /** The best one first. */
  streams: string[];
  /** Rows of each in the window. */
  counts: ReadonlyMap<string, number>;
  /** Started if nothing is recorded. */
  probe: string;
  isKnown: boolean;
}

/** One of a subject's streams over time, and what differs in the brushed part of it. */
export function Pictured({ streams, counts, probe, isKnown }: Props) {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const brushed = readSelection(search.brushed);
  const name = streams.find((one) => one === search.view) ?? streams.find((one) => counts.get(one)) ?? streams[0] ?? "";
  const stream = useStream(name);
  const isEmpty = isKnown && streams.every((one) => !counts.get(one));
  if (isEmpty && !search.view) {
    return (
      <section className="card pictured-empty">
        <Empty title={<Trans>Nothing recorded in this window</Trans>}>
          <Link to="/start" search={{ probe, machine: search.machine }}>
            <Trans>Start the probe {probe}</Trans>
          </Link>
        </Empty>
      </section>
    );
  }
  return (
    <>
      <section className="card">
        <div className="row pictured" role="group" aria-label={t`Stream`}>
          {streams.map((one) => (
            <button key={one} type="button" aria-pressed={one === name} onClick={() => change({ view: one }, true)}>
              {one} <span className="soft number">{count(counts.get(one) ?? 0)}</span>
            </button>
          ))}
          <span className="spring" />
          <Link to="/explore/$stream" params={{ stream: name }} search={(before) => ({ ...before, view: undefined })}>
            <Trans>Its rows</Trans>
          </Link>
        </div>
        {isKnown && stream ? <Picture key={name} stream={stream} selection={brushed} /> : <Loading height={300} />}
      </section>
      {stream && brushed && <Brushed stream={stream} selection={brushed} />}
    </>
  );
}
