import { useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { nodes } from "../nodes/nodes.api";
import { visible } from "../parts/format";
import { useAddress } from "../parts/search";

/** Which machine all screens are about. */
export function MachineChoice() {
  const { t } = useLingui();
  const [search, change] = useAddress();
  const known = useQuery(nodes).data ?? [];
  const chosen = search.machine ?? "";
  const listed = known.some((node) => node.hostname === chosen || node.machine_id === chosen);
  return (
    <select aria-label={t`Machine`} value={chosen} onChange={(event) => change({ machine: event.target.value || undefined })}>
      <option value="">{t`all machines`}</option>
      {chosen && !listed && <option value={chosen}>{visible(chosen)}</option>}
      {known.map((node) => {
        const twice = known.filter((other) => other.hostname === node.hostname).length > 1;
        const name = twice ? node.machine_id : node.hostname;
        return (
          <option key={node.machine_id} value={name}>
            {twice ? `${visible(node.hostname)} ${node.machine_id.slice(0, 8)}` : visible(node.hostname)}
          </option>
        );
      })}
    </select>
  );
}
