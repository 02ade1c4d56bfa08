import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { streams } from "../api/catalogue";
import { comparable, type Compared, measured, type Stream } from "../api/columns";
import { useAllCards } from "../parts/cards";
import { FilterBar } from "../parts/filterbar";
import { clock, quantity } from "../parts/format";
import { isWhole, read } from "../parts/grammar";
import { useAddress } from "../parts/search";
import { readSelection, type Selection } from "../parts/times";
import { useRefusal } from "./refusal";

/** The filter of all screens, over the columns of what this one shows. */
export function BarFilter() {
  const [search, change] = useAddress();
  const known = useQuery(streams).data ?? [];
  const shown = new Set(useAllCards().map((card) => card.stream));
  const offered = known.filter((stream) => shown.has(stream.name));
  const among = offered.length ? offered : known;
  return (
    <FilterBar
      columns={columnsOf(among)}
      value={search.where ?? ""}
      among={among}
      problem={useRefusal()}
      onChange={(where) => change({ where: where || undefined })}
    />
  );
}

/** The columns of streams, each once, those that most of them have first. */
function columnsOf(all: Stream[]): Compared[] {
  const found = new Map<string, { column: Compared; count: number }>();
  for (const column of all.flatMap(comparable)) {
    const one = found.get(column.name) ?? { column, count: 0 };
    one.count += 1;
    found.set(column.name, one);
  }
  return [...found.values()].sort((one, other) => other.count - one.count).map(({ column }) => column);
}

/** What is selected, and to which parts of the screen filter and selection apply. */
export function Applied() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const cards = useAllCards();
  const selection = readSelection(search.brushed);
  const { where } = search;
  if (!where && !selection) return null;
  const named = (some: typeof cards) => [...new Set(some.map((card) => card.name))].join(", ");
  const isFilter = where === undefined || isWhole(read(where));
  const lacking = cards.filter((card) => card.lacks.length > 0);
  const timed = cards.filter((card) => card.stream === undefined);
  const filtered = cards.filter((card) => !lacking.includes(card) && !timed.includes(card));
  const columns = [...new Set(lacking.flatMap((card) => card.lacks))].join(", ");
  return (
    <div className="applied row" role="note">
      {selection && (
        <button type="button" onClick={() => change({ brushed: undefined })} title={t`End the selection`}>
          <Selected selection={selection} /> ×
        </button>
      )}
      {!isFilter ? (
        <span className="warn">
          <Trans>The filter is not whole, and not applied.</Trans>
        </span>
      ) : cards.length === 0 ? (
        <Trans>Nothing on this screen is filtered: this is kept for other screens.</Trans>
      ) : (
        <>
          {filtered.length > 0 && (
            <span>
              <Trans>Applied to: {named(filtered)}.</Trans>
            </span>
          )}
          {lacking.length > 0 && (
            <span className="warn">
              <Trans>
                Without a column {columns}, and so not filtered: {named(lacking)}.
              </Trans>
            </span>
          )}
          {timed.length > 0 && where && (
            <span className="warn">
              <Trans>Not filtered: {named(timed)}.</Trans>
            </span>
          )}
        </>
      )}
    </div>
  );
}

function Selected({ selection: { stream, since, until, least, most } }: { selection: Selection }) {
  const found = useQuery(streams).data?.find((one) => one.name === stream);
  const column = found && measured(found);
  const range =
    column && (least !== undefined || most !== undefined)
      ? ` · ${column.name} ${quantity(least ?? 0, column.unit)} – ${most === undefined ? "∞" : quantity(most, column.unit)} (${stream})`
      : "";
  return (
    <Trans>
      Selected: {clock(since)} – {clock(until)}
      {range}
    </Trans>
  );
}
