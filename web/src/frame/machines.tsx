import { useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { nameAmong, nodes } from "../nodes/nodes.api";
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
        const name = nameAmong(known, node);
        return (
          <option key={node.machine_id} value={name}>
            {name === node.hostname ? visible(name) : `${visible(node.hostname)} ${name.slice(0, 8)}`}
          </option>
        );
      })}
    </select>
  );
}
