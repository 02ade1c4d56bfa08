import type { Probe } from "../api/answers";
import type { ApiError } from "../api/problem";
import type { Value } from "./command";

type Option = Probe["options"][number];

interface Props {
  probe: Probe;
  values: Record<string, Value>;
  onChange: (values: Record<string, Value>) => void;
  problem?: ApiError;
}

/** A field for each option of a probe, made from how the agent describes it. Defaults are left out of what is sent. */
export function Options({ probe, values, onChange, problem }: Props) {
  const set = (name: string, value: Value | undefined) => {
    const rest = Object.fromEntries(Object.entries(values).filter(([other]) => other !== name));
    onChange(value === undefined || value === "" ? rest : { ...rest, [name]: value });
  };
  return probe.options.map((option) => (
    <div className="field" key={option.name}>
      <label htmlFor={`option-${option.name}`}>
        <code>{option.name}</code> {option.meaning}
      </label>
      <Field option={option} value={values[option.name]} onChange={(value) => set(option.name, value)} />
      <span className="bad">{problem?.of(`options/${option.name}`)}</span>
    </div>
  ));
}

function Field({ option, value, onChange }: { option: Option; value: Value | undefined; onChange: (value: Value | undefined) => void }) {
  const id = `option-${option.name}`;
  const usual = option.default === null || option.default === undefined ? "" : String(option.default);
  if (option.type === "choice") {
    return (
      <select id={id} value={String(value ?? usual)} onChange={(event) => onChange(event.target.value === usual ? undefined : event.target.value)}>
        {option.choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    );
  }
  if (option.type === "boolean") {
    const on = value ?? option.default === true;
    return (
      <input id={id} type="checkbox" checked={Boolean(on)} onChange={(event) => onChange(event.target.checked === option.default ? undefined : event.target.checked)} />
    );
  }
  if (option.type === "integer") {
    return (
      <input
        id={id}
        type="number"
        min={option.minimum ?? undefined}
        max={option.maximum ?? undefined}
        placeholder={usual}
        value={value === undefined ? "" : String(value)}
        onChange={(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))}
      />
    );
  }
  const words = Array.isArray(value) ? value.join(", ") : String(value ?? "");
  return (
    <input
      id={id}
      className="mono"
      placeholder={usual || option.choices.slice(0, 3).join(", ")}
      defaultValue={words}
      onChange={(event) => {
        const given = event.target.value.split(",").map((word) => word.trim()).filter(Boolean);
        onChange(given.length ? given : undefined);
      }}
    />
  );
}
