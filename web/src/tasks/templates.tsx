import { useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import type { components } from "../api/schema";
import { visible } from "../parts/format";
import { meaning } from "../parts/meaning";
import { Shown } from "../parts/states";
import { templates } from "./tasks.api";

type Part = components["schemas"]["TemplatePart"];

/** Probes that are started together to answer a question. */
export function Templates({ chosen, onChoose }: { chosen: string | undefined; onChoose: (template: string) => void }) {
  const { t } = useLingui();
  const found = useQuery(templates);
  return (
    <Shown of={found} height={300}>
      {(all) => (
        <div className="choices" role="radiogroup" aria-label={t`Template`}>
          {all.map((one) => (
            <label key={one.name}>
              <input type="radio" name="template" checked={one.name === chosen} onChange={() => onChoose(one.name)} />
              <span className="break">
                <b>{one.name}</b> {visible(meaning(one.meaning))}
                <br />
                <span className="soft mono">{one.parts.map(told).join(" · ")}</span>
              </span>
            </label>
          ))}
        </div>
      )}
    </Shown>
  );
}

/** A probe with what differs from its defaults. */
function told({ probe, options, where }: Part): string {
  const given = Object.entries(options).map(([name, value]) => `${name}=${String(value)}`);
  return visible([probe, ...given, where ?? ""].filter(Boolean).join(" "));
}
