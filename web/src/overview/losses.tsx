import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { clock, count } from "../parts/format";
import { useLosses } from "../parts/losses";

const SHOWN = 8;

/** What is not among the rows of this window: when, where, why. */
export function LossList() {
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
          <table className="plain">
            <thead>
              <tr>
                <th>
                  <Trans>When</Trans>
                </th>
                <th>
                  <Trans>Stream</Trans>
                </th>
                <th>
                  <Trans>Reason</Trans>
                </th>
                <th className="number">
                  <Trans>Events</Trans>
                </th>
              </tr>
            </thead>
            <tbody>
              {losses.slice(0, SHOWN).map((loss) => (
                <tr key={`${loss.task_id} ${loss.stream} ${loss.reason} ${loss.since}`}>
                  <td>
                    {clock(loss.since)}–{loss.until ? clock(loss.until) : "…"}
                  </td>
                  <td>{loss.stream}</td>
                  <td>
                    <Link to="/tasks/$task" params={{ task: loss.task_id }}>
                      {loss.reason} · {loss.place}
                    </Link>
                  </td>
                  <td className="number">{loss.count === null ? "?" : count(loss.count)}</td>
                </tr>
              ))}
            </tbody>
          </table>
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
