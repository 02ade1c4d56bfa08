import { useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { Loss } from "../api/answers";
import { clock, count, visible } from "../parts/format";
import { causeOf, remedyOf } from "../parts/lossreasons";
import { Table } from "../parts/table";

interface Props {
  losses: Loss[];
  /** With the machine, and with what helps. */
  whole?: boolean;
}

/** Losses: when, of which stream, why, how many; each leads to the books of its task. */
export function LossTable({ losses, whole = false }: Props) {
  const { t, i18n } = useLingui();
  return (
    <Table
      rows={losses}
      keyOf={(loss) => `${loss.task_id} ${loss.stream} ${loss.place} ${loss.reason} ${loss.since}`}
      fields={[
        { name: t`When`, show: (loss) => <>{clock(loss.since)}–{loss.until ? clock(loss.until) : "…"}</> },
        { name: t`Stream`, show: (loss) => loss.stream },
        whole && { name: t`Machine`, show: (loss) => visible(loss.hostname) },
        { name: t`Reason`, show: (loss) => <OfTask loss={loss} told={causeOf(i18n, loss)} /> },
        { name: t`Events`, number: true, show: (loss) => <OfTask loss={loss} told={loss.count === null ? "?" : count(loss.count)} /> },
        whole && { name: t`What helps`, className: "soft", show: (loss) => remedyOf(i18n, loss) },
      ]}
    />
  );
}

function OfTask({ loss, told }: { loss: Loss; told: string }) {
  return (
    <Link to="/tasks/$task" params={{ task: loss.task_id }} title={`${loss.place}/${loss.reason}`}>
      {told}
    </Link>
  );
}
