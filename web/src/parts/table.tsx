import type { ReactNode } from "react";

import { Cut } from "./cut";

export interface Field<T> {
  /** Head of the column; none: its cells speak for themselves. */
  name?: string;
  number?: boolean;
  className?: string;
  show: (row: T) => ReactNode;
}

interface Props<T> {
  rows: T[];
  /** What is false is left out. */
  fields: (Field<T> | false)[];
  keyOf: (row: T, number: number) => string | number;
  /** How many rows are shown at first; none: all. */
  first?: number;
}

/** A table of few rows, those that are shown all in the page; one that is wider than its place is scrolled there, by keys, too. */
export function Table<T>({ rows, fields, keyOf, first = rows.length }: Props<T>) {
  const shown = fields.filter((field) => field !== false);
  const look = ({ number, className = "" }: Field<T>) => `${number ? "number " : ""}${className}`.trim() || undefined;
  return (
    <Cut all={rows} first={first}>
      {(listed) => (
        <div className="scroll" tabIndex={0}>
          <table className="plain">
            {shown.some((field) => field.name) && (
              <thead>
                <tr>
                  {shown.map(({ name, number }, at) => (name ? <th key={at} className={number ? "number" : undefined}>{name}</th> : <td key={at} />))}
                </tr>
              </thead>
            )}
            <tbody>
              {listed.map((row, number) => (
                <tr key={keyOf(row, number)}>
                  {shown.map((field, at) => (
                    <td key={at} className={look(field)}>
                      {field.show(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Cut>
  );
}
