import type { ReactNode } from "react";

import "./bars.css";
import { visible } from "./format";

export interface Bar {
  name: string;
  value: number;
  told: string;
  link?: (name: ReactNode) => ReactNode;
}

/** A ranking: name, bar, number. */
export function Bars({ bars }: { bars: Bar[] }) {
  const most = Math.max(1, ...bars.map((bar) => bar.value));
  return (
    <ul className="bars">
      {bars.map((bar) => (
        <li key={bar.name}>
          <span className="bar-fill" style={{ width: `${(bar.value / most) * 100}%` }} aria-hidden="true" />
          <span className="bar-name clip" title={visible(bar.name)}>
            {bar.link ? bar.link(visible(bar.name)) : visible(bar.name)}
          </span>
          <span className="number">{bar.told}</span>
        </li>
      ))}
    </ul>
  );
}
