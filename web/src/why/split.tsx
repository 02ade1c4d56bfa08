import { useLingui } from "@lingui/react/macro";

import { duration, share } from "../parts/format";

interface Times {
  total_ns: number;
  on_cpu_ns: number;
  run_queue_ns: number;
  blocked_ns: number;
}

/** Wall time as one bar: on a CPU, waiting for one, blocked. */
export function Split({ times, most = times.total_ns }: { times: Times; most?: number }) {
  const { t } = useLingui();
  const parts = [
    { kind: "cpu", name: t`on a CPU`, value: times.on_cpu_ns },
    { kind: "queue", name: t`waiting for a CPU`, value: times.run_queue_ns },
    { kind: "blocked", name: t`blocked`, value: times.blocked_ns },
  ];
  const whole = times.total_ns || 1;
  return (
    <div className="split">
      <div className="split-bar" style={{ width: `${(times.total_ns / (most || 1)) * 100}%` }} aria-hidden="true">
        {parts.map((part) => (
          <span key={part.kind} className={`split-${part.kind}`} style={{ flexGrow: part.value / whole }} />
        ))}
      </div>
      <p className="split-told">
        {parts.map((part) => (
          <span key={part.kind}>
            <i className={`split-${part.kind}`} /> {part.name} {share(part.value / whole)} <span className="soft">{duration(part.value)}</span>
          </span>
        ))}
      </p>
    </div>
  );
}
