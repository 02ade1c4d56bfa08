import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import { LossTable } from "../losses/losstable";
import { useLosses } from "../parts/losses";

const SHOWN = 8;

/** What is not among the rows of this window: when, where, why. */
export function LossList() {
  const { losses, more } = useLosses();
  const hidden = `${more ? "≥ " : ""}${losses.length - SHOWN}`;
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
        <LossTable losses={losses.slice(0, SHOWN)} />
      )}
      {losses.length > SHOWN && (
        <Link to="/losses" className="soft">
          <Trans>{hidden} more, and what helps against them</Trans>
        </Link>
      )}
    </section>
  );
}
