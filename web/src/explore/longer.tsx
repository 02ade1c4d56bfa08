import { Trans, useLingui } from "@lingui/react/macro";

import type { components } from "../api/schema";
import { Bars } from "../parts/bars";
import { duration, share, visible } from "../parts/format";
import { meaning } from "../parts/meaning";

type Longer = NonNullable<components["schemas"]["Difference"]["longer"]>;

/** How much longer the rows inside took: what slowed them, and what the time was spent on. */
export function LongerTime({ longer }: { longer: Longer }) {
  const { t } = useLingui();
  const { duration: whole, parts, causes } = longer;
  const more = (one: { inside_ns: number; outside_ns: number }) => one.inside_ns - one.outside_ns;
  return (
    <div className="longer">
      <p>
        <Trans>
          A row inside took <b>{duration(whole.inside_ns)}</b> in the mean, one outside <b>{duration(whole.outside_ns)}</b>.
        </Trans>
      </p>
      {causes.map((cause) => (
        <p key={cause.text} className="longer-cause">
          <b>{visible(cause.text)}</b>{" "}
          <Trans>
            slowed {share(cause.inside)} of the rows inside, and {share(cause.outside)} of those outside.
          </Trans>
        </p>
      ))}
      {parts.length > 0 && (
        <>
          <h3>
            <Trans>What took longer</Trans>
          </h3>
          <Bars bars={parts.map((part) => ({ name: `${meaning(part.meaning)} · ${part.column}`, value: more(part), told: t`+${duration(more(part))} a row` }))} />
        </>
      )}
    </div>
  );
}
