import { Trans, useLingui } from "@lingui/react/macro";
import type { ReactNode } from "react";

import { ApiError } from "../api/problem";
import "./states.css";

/** Space for what is coming: as high as it will be, so that nothing jumps. After some seconds it says that it waits. */
export function Loading({ height = 120 }: { height?: number }) {
  const { t } = useLingui();
  return (
    <div className="loading" style={{ height }} role="status" aria-label={t`Loading`}>
      <span className="loading-long">{t`The server takes long …`}</span>
    </div>
  );
}

export function Empty({ title, children }: { title: ReactNode; children?: ReactNode }) {
  return (
    <div className="state">
      <p className="state-title">{title}</p>
      {children && <div className="state-text">{children}</div>}
    </div>
  );
}

/** What went wrong, in the server's words, and what to do. */
export function Failed({ error, again }: { error: unknown; again?: () => void }) {
  const said = error instanceof Error ? error.message : String(error);
  const status = error instanceof ApiError ? error.status : undefined;
  if (error instanceof ApiError && error.isMissing) return <NotAvailable />;
  return (
    <div className="state failed" role="alert">
      <p className="state-title">
        {status === 0 ? (
          <Trans>The server does not answer</Trans>
        ) : status === 403 ? (
          <Trans>Your role does not allow this</Trans>
        ) : status === 503 ? (
          <Trans>Not available at the moment</Trans>
        ) : status === 504 ? (
          <Trans>This takes the server too long</Trans>
        ) : (
          <Trans>This could not be shown</Trans>
        )}
      </p>
      <p className="state-text">{said}</p>
      {again && (
        <button type="button" onClick={again}>
          <Trans>Try again</Trans>
        </button>
      )}
    </div>
  );
}

export function NotAvailable({ children }: { children?: ReactNode }) {
  return (
    <Empty title={<Trans>This server does not answer this yet</Trans>}>
      {children ?? <Trans>It is older than the console. Everything else works as usual.</Trans>}
    </Empty>
  );
}

/** A line above a picture that is not the whole truth. */
export function Partial({ children }: { children: ReactNode }) {
  return (
    <p className="partial" role="note">
      {children}
    </p>
  );
}

interface Asked<T> {
  data: T | undefined;
  error: unknown;
  refetch?: () => unknown;
}

/** An answer in each of its states. An error beside older data is told above it, and the data stays. */
export function Shown<T>({
  of,
  height,
  children,
}: {
  of: Asked<T>;
  height?: number;
  children: (data: T) => ReactNode;
}) {
  const again = of.refetch ? () => void of.refetch?.() : undefined;
  if (of.data === undefined) return of.error ? <Failed error={of.error} again={again} /> : <Loading height={height} />;
  return (
    <>
      {of.error instanceof Error && (
        <Partial>
          <Trans>Not up to date: {of.error.message}</Trans>
        </Partial>
      )}
      {children(of.data)}
    </>
  );
}
