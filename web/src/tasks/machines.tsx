import { Trans, useLingui } from "@lingui/react/macro";

import type { Node } from "../api/answers";
import { visible } from "../parts/format";
import { having, type Labels, labelsOf } from "./labels";

interface Props {
  nodes: Node[];
  node: string;
  /** Undefined: one machine is chosen by its name. */
  labels: Labels | undefined;
  onNode: (node: string) => void;
  onLabels: (labels: Labels | undefined) => void;
}

/** One machine, or all that have some labels. */
export function Machines({ nodes, node, labels, onNode, onLabels }: Props) {
  const { t } = useLingui();
  return (
    <>
      <div className="row">
        <button type="button" aria-pressed={!labels} onClick={() => onLabels(undefined)}>
          <Trans>One machine</Trans>
        </button>
        <button type="button" aria-pressed={Boolean(labels)} onClick={() => onLabels(labels ?? {})}>
          <Trans>All with these labels</Trans>
        </button>
      </div>
      {labels ? (
        <ByLabels nodes={nodes} labels={labels} onChange={onLabels} />
      ) : (
        <select aria-label={t`Machine`} className="choice" value={node} onChange={(event) => onNode(event.target.value)}>
          {nodes.map((one) => (
            <option key={one.machine_id} value={one.machine_id}>
              {visible(one.hostname)} {one.connected ? "" : `(${t`away`})`}
            </option>
          ))}
        </select>
      )}
    </>
  );
}

function ByLabels({ nodes, labels, onChange }: { nodes: Node[]; labels: Labels; onChange: (labels: Labels) => void }) {
  const { t } = useLingui();
  const known = labelsOf(nodes);
  if (known.length === 0) {
    return (
      <p className="soft">
        <Trans>
          No machine has a label. This gives it one: <code>scope nodes label HOST role=gpu</code>
        </Trans>
      </p>
    );
  }
  const set = (name: string, value: string) => {
    const rest = Object.fromEntries(Object.entries(labels).filter(([other]) => other !== name));
    onChange(labels[name] === value ? rest : { ...rest, [name]: value });
  };
  const none = Object.keys(labels).length === 0;
  const meant = none ? [] : having(nodes, labels);
  const names = meant.map((one) => visible(one.hostname)).join(", ");
  return (
    <>
      <div className="row labels" role="group" aria-label={t`Labels`}>
        {known.map(([name, value]) => (
          <button type="button" key={`${name}=${value}`} className="mono" aria-pressed={labels[name] === value} onClick={() => set(name, value)}>
            {name}={value}
          </button>
        ))}
      </div>
      <p className="soft break">
        {none ? <Trans>Choose one label or several.</Trans> : meant.length > 0 ? <Trans>It starts on: {names}</Trans> : <Trans>No machine has all these labels.</Trans>}
      </p>
    </>
  );
}
