import { Trans, useLingui } from "@lingui/react/macro";

import { useStream } from "../api/catalogue";
import { Bars } from "../parts/bars";
import { duration, share } from "../parts/format";
import { useTotals } from "../parts/series";
import { Empty, Partial, Shown } from "../parts/states";

const WHOLE = "duration_ns";
const MOST = 18; // cells besides these two that the API computes at once
// Sums of other columns, or of another thread's time.
const APART = ["ktime_ns", "start_ns", "interval_ns", WHOLE, "decode_ns", "outside_ns", "others_run_queue_ns"];

/** Where the time of the tokens in the window went, by the columns of durations that the stream has. */
export function TokenTime() {
  const { t } = useLingui();
  const stream = useStream("llama_token");
  const parts = (stream?.columns ?? []).filter((one) => one.unit === "ns" && !APART.includes(one.name) && !one.name.startsWith("outside_")).slice(0, MOST);
  const cells = ["count", `sum(${WHOLE})`, ...parts.map((one) => `sum(${one.name})`)];
  const found = useTotals({ stream: "llama_token", cells, top: 1, where: "draft = 0", card: t`Where the time of a token goes` }, parts.length > 0);
  return (
    <section className="card">
      <h2>
        {t`Where the time of a token goes`}
      </h2>
      <Shown of={found} height={200}>
        {({ groups: [group], complete }) => {
          const whole = Number(group?.values[`sum(${WHOLE})`] ?? 0);
          const bars = parts
            .map((part) => ({ part, value: Number(group?.values[`sum(${part.name})`] ?? 0) }))
            .filter(({ value }) => value > 0)
            .sort((one, other) => other.value - one.value);
          if (!whole || !bars.length) return <Empty title={<Trans>No tokens in this window</Trans>} />;
          return (
            <>
              {!complete && (
                <Partial>
                  <Trans>Of the newest tokens only: the window has too many.</Trans>
                </Partial>
              )}
              <Bars bars={bars.map(({ part, value }) => ({ name: `${part.name}: ${part.meaning}`, value, told: `${share(value / whole)} · ${duration(value / Number(group?.values.count || 1))}` }))} />
            </>
          );
        }}
      </Shown>
    </section>
  );
}
