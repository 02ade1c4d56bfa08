import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { clock, count, visible } from "../parts/format";
import { useLosses } from "../parts/losses";
import { Table } from "../parts/table";

const SHOWN = 8;

/** What is not among the rows of this window: when, where, why. */
export function LossList() {
  const { t } = useLingui();
  const { losses, more } = useLosses();
  return (
    <section className="card">
      <h2>
        <Trans>Not recorded</Trans>
      </h2>
      {losses.length === 0 ? (
        <p className="soft">
          <Trans>Every event of this window is stored, or on its way.</Trans>
        </p>
      ) : (
        <div className="scroll">
          <Table
            rows={losses.slice(0, SHOWN)}
            keyOf={(loss) => `${loss.task_id} ${loss.stream} ${loss.reason} ${loss.since}`}
            fields={[
              { name: t`When`, show: (loss) => <>{clock(loss.since)}–{loss.until ? clock(loss.until) : "…"}</> },
              { name: t`Stream`, show: (loss) => loss.stream },
              {
                name: t`Reason`,
                show: (loss) => (
                  <Link to="/tasks/$task" params={{ task: loss.task_id }}>
                    {visible(loss.reason)} · {loss.place}
                  </Link>
                ),
              },
              { name: t`Events`, number: true, show: (loss) => loss.count === null ? "?" : count(loss.count) },
            ]}
          />
        </div>
      )}
      {(more || losses.length > SHOWN) && (
        <p className="soft">
          <Trans>{losses.length - SHOWN} more are marked on the charts.</Trans>
        </p>
      )}
    </section>
  );
}
