import { useLingui } from "@lingui/react/macro";
import { type ReactNode, useState } from "react";

interface Props<T> {
  all: T[];
  /** How many are shown at first. */
  first: number;
  children: (shown: T[]) => ReactNode;
}

const STEP = 200; // a list of thousands comes into the page by parts

/** The first of a list, and a button that says how many are hidden, and shows them. */
export function Cut<T>({ all, first, children }: Props<T>) {
  const { t } = useLingui();
  const [more, setMore] = useState(0);
  const hidden = all.length - first - more;
  return (
    <>
      {children(all.slice(0, first + more))}
      {hidden > 0 && (
        <button type="button" className="quiet soft" onClick={() => setMore(more + STEP)}>
          {hidden > STEP ? t`${hidden} hidden: show ${STEP} of them` : t`${hidden} hidden: show them`}
        </button>
      )}
      {hidden <= 0 && more > 0 && (
        <button type="button" className="quiet soft" onClick={() => setMore(0)}>
          {t`Show fewer`}
        </button>
      )}
    </>
  );
}
