import type { ReactNode } from "react";

import "./bars.css";
import { visible } from "./format";

export interface Bar {
  name: string;
  value: number;
  told: string;
  /** Around name and number: where they come from. */
  link?: (told: ReactNode) => ReactNode;
}

/** A ranking: name, bar, number. */
export function Bars({ bars }: { bars: Bar[] }) {
  const most = Math.max(1, ...bars.map((bar) => bar.value));
  return (
    <ul className="bars">
      {bars.map((bar) => (
        <li key={bar.name}>
          <span className="bar-fill" style={{ width: `${(bar.value / most) * 100}%` }} aria-hidden="true" />
          {bar.link ? bar.link(<Told bar={bar} />) : <Told bar={bar} />}
        </li>
      ))}
    </ul>
  );
}

function Told({ bar: { name, told } }: { bar: Bar }) {
  return (
    <>
      <span className="bar-name clip" title={visible(name)}>
        {visible(name)}
      </span>
      <span className="number">{told}</span>
    </>
  );
}
