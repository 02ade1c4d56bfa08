import { useLingui } from "@lingui/react/macro";

import { useAddress } from "../parts/search";
import { readSelection, type Times, timesOf } from "../parts/times";

/** The window that a flame graph is compared with, as the address says: `before`, `rest`, or `begin~end`; undefined: none. */
export function othersOf(against: string | undefined, shown: Times, whole: Times): Times | undefined {
  const length = shown.until.getTime() - shown.since.getTime();
  if (against === "before") return { since: new Date(shown.since.getTime() - length), until: shown.since };
  if (against === "rest") return shown === whole ? undefined : whole;
  const [since = "", until = ""] = against?.split("~") ?? [];
  const times = { since: new Date(since), until: new Date(until) };
  return times.since < times.until ? times : undefined;
}

/** Chooses it: none, the time before, the rest of the window around a selection, or any other window. */
export function Against() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const selection = readSelection(search.brushed);
  const whole = timesOf(search);
  const { against } = search;
  const others = othersOf(against, selection ?? whole, whole);
  const isOther = against?.includes("~") ?? false;
  const write = ({ since, until }: Times) => change({ against: `${since.toISOString()}~${until.toISOString()}` });
  const choose = (chosen: string) => {
    const usual = others ?? othersOf("before", selection ?? whole, whole);
    if (chosen === "other" && usual) write(usual);
    else change({ against: chosen || undefined });
  };
  return (
    <>
      <select aria-label={t`Compared with`} value={isOther ? "other" : (against ?? "")} onChange={(event) => choose(event.target.value)}>
        <option value="">{t`compared with nothing`}</option>
        <option value="before">{t`against the time before`}</option>
        {(selection || against === "rest") && <option value="rest">{t`against the rest of the window`}</option>}
        <option value="other">{t`against another window`}</option>
      </select>
      {isOther && others && (
        <>
          <Moment label={t`Begin of the other window`} at={others.since} onChange={(since) => write({ ...others, since })} />
          <span>–</span>
          <Moment label={t`End of the other window`} at={others.until} onChange={(until) => write({ ...others, until })} />
        </>
      )}
    </>
  );
}

/** A time to the second, as people write it where they are. */
function Moment({ label, at, onChange }: { label: string; at: Date; onChange: (at: Date) => void }) {
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  const take = (given: string) => {
    const next = new Date(given);
    if (!Number.isNaN(next.getTime())) onChange(next);
  };
  return <input key={local} type="datetime-local" step="1" aria-label={label} defaultValue={local} onBlur={(event) => event.target.value !== local && take(event.target.value)} />;
}
