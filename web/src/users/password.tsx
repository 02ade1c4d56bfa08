import { Trans, useLingui } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";
import type { FormEvent } from "react";

import { api, data } from "../api/client";
import { Failed } from "../parts/states";

export function Password() {
  const { t } = useLingui();
  const change = useMutation({
    mutationFn: (body: { password: string; new_password: string }) => data(api.POST("/api/v1/auth/password", { body })),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    change.mutate({ password: String(given.get("password")), new_password: String(given.get("fresh")) });
  };
  return (
    <form onSubmit={submit} className="password">
      <label htmlFor="password">{t`Password`}</label>
      <input id="password" name="password" type="password" autoComplete="current-password" required />
      <label htmlFor="fresh">{t`New password, 12 characters or more`}</label>
      <input id="fresh" name="fresh" type="password" autoComplete="new-password" minLength={12} required />
      <button type="submit" disabled={change.isPending}>
        <Trans>Change the password</Trans>
      </button>
      {change.isSuccess && (
        <p className="good" role="status">
          <Trans>Changed. Your other logins have ended.</Trans>
        </p>
      )}
      {change.error && <Failed error={change.error} />}
    </form>
  );
}
