import { useLingui } from "@lingui/react/macro";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { flushSync } from "react-dom";

import type { Compared } from "../api/columns";
import { complete, type Completion } from "./complete";
import "./filterbar.css";
import { meaning } from "./meaning";
import { useValues } from "./values";

interface Props {
  /** What it filters; none: the rows of the page. */
  label?: string;
  columns: Compared[];
  value: string;
  onChange: (where: string) => void;
  /** The streams whose values are offered. */
  among: { name: string; columns: { name: string }[] }[];
  /** What the server says of the filter. */
  problem?: string;
}

/** A filter, with what may come next below it. Enter applies it. */
export function FilterBar({ label, columns, value, onChange, among, problem }: Props) {
  const { t, i18n } = useLingui();
  const [text, setText] = useState(value);
  const [cursor, setCursor] = useState<number>();
  const [chosen, setChosen] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => setText(value), [value]);

  const completed = (values: string[]): Completion => (cursor === undefined ? { from: 0, options: [], hidden: 0 } : complete(text, cursor, columns, () => values));
  const { values, more } = useValues(completed([]).of, among);
  const { from, options, hidden } = completed(values);
  const take = (option: string) => {
    const at = cursor ?? text.length;
    const before = `${text.slice(0, from)}${option} `;
    flushSync(() => {
      setText(before + text.slice(at).trimStart());
      setCursor(before.length);
      setChosen(-1);
    });
    input.current?.setSelectionRange(before.length, before.length); // at once: who types fast has typed on already
  };
  const press = (event: KeyboardEvent) => {
    const option = options[chosen];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!options.length) return;
      setChosen((before) => (before + (event.key === "ArrowDown" ? 1 : -1) + options.length + 1) % (options.length + 1));
    } else if ((event.key === "Enter" || event.key === "Tab") && option) take(option.text);
    else if (event.key === "Enter") {
      setCursor(undefined);
      onChange(text.trim());
    } else if (event.key === "Escape") setCursor(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <div className="filter">
      <input
        ref={input}
        className="mono"
        role="combobox"
        aria-label={label ?? t`Filter`}
        aria-expanded={options.length > 0}
        aria-controls={id}
        aria-activedescendant={options[chosen] ? `${id}-${chosen}` : undefined}
        aria-invalid={Boolean(problem)}
        placeholder={t`Filter, such as: duration > 1ms and comm = 'python3'`}
        spellCheck={false}
        maxLength={4096}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setCursor(event.target.selectionStart ?? undefined);
          setChosen(-1);
        }}
        onFocus={(event) => setCursor(event.target.selectionStart ?? 0)}
        onBlur={() => {
          setCursor(undefined);
          if (text.trim() !== value) onChange(text.trim());
        }}
        onKeyDown={press}
      />
      {value && (
        <button type="button" className="quiet" aria-label={t`Clear the filter`} onClick={() => onChange("")}>
          ×
        </button>
      )}
      {problem && <p className="bad break filter-problem">{problem}</p>}
      <ul id={id} role="listbox" aria-label={t`Completions`} hidden={options.length === 0}>
        {options.map((option, number) => (
          <li
            key={option.text}
            id={`${id}-${number}`}
            role="option"
            aria-selected={number === chosen}
            onPointerDown={(event) => {
              event.preventDefault();
              take(option.text);
            }}
          >
            <code>{option.text}</code> <span className="soft clip">{typeof option.meaning === "string" ? meaning(option.meaning) : i18n._(option.meaning)}</span>
          </li>
        ))}
        {(hidden > 0 || more) && (
          <li role="option" aria-disabled="true" aria-selected="false" className="soft filter-hidden">
            {hidden > 0 ? t`${hidden} hidden: write more of the name` : t`More are hidden: write what they contain`}
          </li>
        )}
      </ul>
    </div>
  );
}
