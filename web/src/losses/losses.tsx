import { Trans } from "@lingui/react/macro";

import { useLosses } from "../parts/losses";
import { Empty, Partial } from "../parts/states";
import { LossTable } from "./losstable";

/** All that is not among the rows of the window: when, of which stream, why, and what helps. */
export function Losses() {
  const { losses, more } = useLosses();
  return (
    <div className="screen">
      <header>
        <h1>
          <Trans>Not recorded</Trans>
        </h1>
      </header>
      {more && (
        <Partial>
          <Trans>These are the newest {losses.length}. For older ones, choose an earlier time.</Trans>
        </Partial>
      )}
      <section className="card">
        {losses.length === 0 ? <Empty title={<Trans>Every event of this window is stored, or on its way.</Trans>} /> : <LossTable losses={losses} whole />}
      </section>
    </div>
  );
}
