import { useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { visible } from "../parts/format";
import { meaning } from "../parts/meaning";
import { Shown } from "../parts/states";
import { probes } from "../nodes/nodes.api";

interface Props {
  /** Whose kernel says which of them work. */
  node: string;
  chosen: string | undefined;
  onChoose: (probe: string) => void;
}

/** The probes that a machine's agent has. */
export function Probes({ node, chosen, onChoose }: Props) {
  const { t } = useLingui();
  const offered = useQuery({ ...probes(node), enabled: node !== "" });
  return (
    <Shown of={offered} height={300}>
      {({ probes: all }) => (
        <div className="choices" role="radiogroup" aria-label={t`Probe`}>
          {all.map((one) => (
            <label key={one.name} className={one.available ? "" : "soft"}>
              <input type="radio" name="probe" checked={one.name === chosen} disabled={!one.available} onChange={() => onChoose(one.name)} />
              <span>
                <b>{one.name}</b> {meaning(one.meaning)}
                {!one.available && <em className="bad break"> {visible(one.reason)}</em>}
              </span>
            </label>
          ))}
        </div>
      )}
    </Shown>
  );
}
