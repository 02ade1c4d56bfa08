import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { clock, moment } from "./format";
import { useAddress } from "./search";
import { DEFAULT_LENGTH, isLive, seconds, timesOf } from "./times";

const LENGTHS = ["5m", "15m", "1h", "6h", "1d", "7d", "30d"];

/** The time range of all screens: a length that ends now, or fixed times that were brushed, moved or zoomed. */
export function TimeBar() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const live = isLive(search);
  const { since, until } = timesOf(search);
  const length = until.getTime() - since.getTime();
  const fixed = (begin: number, end: number) =>
    change({ since: new Date(begin).toISOString(), until: new Date(Math.min(end, Date.now())).toISOString(), brushed: undefined });
  const given = search.since ?? DEFAULT_LENGTH;
  return (
    <div className="timebar row" role="group" aria-label={t`Time range`}>
      <button type="button" aria-label={t`Earlier`} onClick={() => fixed(since.getTime() - length / 2, until.getTime() - length / 2)}>
        ‹
      </button>
      <select
        aria-label={t`Length`}
        value={live && seconds(given) ? given : ""}
        onChange={(event) => change({ since: event.target.value, until: undefined, brushed: undefined })}
      >
        {(!live || !LENGTHS.includes(given)) && (
          <option value={live ? given : ""}>
            {live && seconds(given) ? t`last ${given}` : `${moment(since)} – ${clock(until)}`}
          </option>
        )}
        {LENGTHS.map((one) => (
          <option key={one} value={one}>
            {t`last ${one}`}
          </option>
        ))}
      </select>
      <button type="button" aria-label={t`Later`} disabled={live} onClick={() => fixed(since.getTime() + length / 2, until.getTime() + length / 2)}>
        ›
      </button>
      <button
        type="button"
        aria-pressed={live}
        title={live ? t`The window moves on; press to hold it` : t`The window is held; press to follow now`}
        onClick={() => (live ? fixed(since.getTime(), until.getTime()) : change({ since: undefined, until: undefined, brushed: undefined }))}
      >
        {live ? t`Live` : t`Held`}
      </button>
      <Link to="/why" className="button" title={t`Why was the machine slow in this window?`}>
        <Trans>Why?</Trans>
      </Link>
    </div>
  );
}
