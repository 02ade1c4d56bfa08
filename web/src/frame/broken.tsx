import { Trans } from "@lingui/react/macro";

import { Failed } from "../parts/states";

/** A screen that failed. One whose part is gone was loaded before the server was upgraded. */
export function Broken({ error }: { error: unknown }) {
  const upgraded = /dynamically imported module|Importing a module/.test(String(error));
  return (
    <div className="screen">
      {upgraded ? (
        <div className="state">
          <p className="state-title">
            <Trans>The console was upgraded</Trans>
          </p>
          <button type="button" className="primary" onClick={() => location.reload()}>
            <Trans>Load the new one</Trans>
          </button>
        </div>
      ) : (
        <Failed error={error} again={() => location.reload()} />
      )}
    </div>
  );
}
