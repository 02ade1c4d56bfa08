import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { Command } from "../parts/command";
import { Failed } from "../parts/states";

/** Makes a token, and shows the command with which a machine joins. */
export function Join() {
  const { t } = useLingui();
  const made = useMutation({ mutationFn: () => data(api.POST("/api/v1/join-tokens", { body: { valid: 3600, uses: 1 } })) });
  return (
    <section className="card">
      <h2>
        <Trans>Join a machine</Trans>
      </h2>
      {made.data ? (
        <>
          <p>
            <Trans>On the new machine, as root, within an hour; the token is shown only now:</Trans>
          </p>
          <Command text={joining(made.data.token)} />
        </>
      ) : (
        <button type="button" className="primary" disabled={made.isPending} onClick={() => made.mutate()}>
          {t`Make a token for one machine`}
        </button>
      )}
      {made.error && <Failed error={made.error} />}
    </section>
  );
}

// The port is the default of the setting `enrol`.
function joining(token: string): string {
  return `SCOPE_JOIN_TOKEN=${token} scope agentd --join ${location.hostname}:8474`;
}
