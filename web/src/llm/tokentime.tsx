import { Trans } from "@lingui/react/macro";

import { Bars } from "../parts/bars";
import { duration, share } from "../parts/format";
import { meaning } from "../parts/meaning";
import { Empty, Partial, Shown } from "../parts/states";
import { useTokenTime, WHOLE } from "./tokentime.api";

/** Where the time of the tokens in the window went, by the columns of durations that the stream has. */
export function TokenTime() {
  const { found, parts } = useTokenTime();
  return (
    <section className="card">
      <h2>
        <Trans>Where the time of a token goes</Trans>
      </h2>
      <Shown of={found} height={200}>
        {({ groups: [group], complete }) => {
          const whole = Number(group?.values[WHOLE] ?? 0);
          if (!whole || !parts.length) return <Empty title={<Trans>No tokens in this window</Trans>} />;
          const bars = parts.map((part) => {
            const value = Number(group?.values[part.cell] ?? 0);
            return { name: `${part.name}: ${meaning(part.meaning)}`, value, told: `${share(value / whole)} · ${duration(value / Number(group?.values.count || 1))}` };
          });
          return (
            <>
              {!complete && (
                <Partial>
                  <Trans>Of the newest tokens only: the window has too many.</Trans>
                </Partial>
              )}
              <Bars bars={bars} />
            </>
          );
        }}
      </Shown>
    </section>
  );
}
