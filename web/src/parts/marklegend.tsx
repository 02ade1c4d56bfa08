import { useLingui } from "@lingui/react/macro";

import "./legend.css";
import type { Mark } from "./marks";

/** What the marks of a chart are. */
export function MarkLegend({ marks }: { marks: Mark[] }) {
  const { t } = useLingui();
  return (
    <>
      {marks.some((mark) => mark.kind === "loss") && (
        <span className="loss-key">
          <i />
          {t`not all was recorded`}
        </span>
      )}
      {marks.some((mark) => mark.kind === "off") && (
        <span className="off-key">
          <i />
          {t`no task recorded`}
        </span>
      )}
      {marks.some((mark) => mark.kind === "note") && (
        <span className="note-key">
          <i />
          {t`annotations`}
        </span>
      )}
    </>
  );
}
