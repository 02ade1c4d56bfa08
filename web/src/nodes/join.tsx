import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";

import { api, data } from "../api/client";
import type { components } from "../api/schema";
import { Command } from "../parts/command";
import { Failed } from "../parts/states";

type Token = components["schemas"]["JoinToken"];

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
          <Command text={joining(made.data)} />
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

/** A server that admits no machines itself knows no address: another one of its fleet does. */
function joining({ token, addresses: [address = ":PORT"] }: Token): string {
  const at = address.startsWith(":") ? location.hostname + address : address;
  return `SCOPE_JOIN_TOKEN=${token} scope agentd --join ${at}`;
}
