import { Trans } from "@lingui/react/macro";

import { clock } from "./format";
import { useLosses } from "./losses";
import { Partial } from "./states";
import { useAddress } from "./search";
import { timesOf } from "./times";

const NEAR_MS = 15_000; // the window of an answer may be some seconds older than that of the page

/** Says from when on a stream was recorded, if that is within the window. */
export function NotBefore({ stream }: { stream: string }) {
  const [search] = useAddress();
  const [first] = useLosses(stream).unrecorded;
  const { since, until } = timesOf(search);
  if (!first || Date.parse(first.since) > since.getTime() + NEAR_MS || Date.parse(first.until) > until.getTime() - NEAR_MS) return null;
  return (
    <Partial>
      <Trans>Not recorded before {clock(first.until)}</Trans>
    </Partial>
  );
}
