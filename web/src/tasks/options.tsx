import type { Probe } from "../api/answers";
import type { ApiError } from "../api/problem";
import { meaning } from "../parts/meaning";
import type { Value } from "./command";

type Schema = Probe["options"]["properties"][string];

interface Props {
  probe: Probe;
  values: Record<string, Value>;
  onChange: (values: Record<string, Value>) => void;
  problem?: ApiError;
}

/** A field for each option of a probe, made from the JSON Schema of its options. Defaults are left out of what is sent. */
export function Options({ probe, values, onChange, problem }: Props) {
  const set = (name: string, value: Value | undefined) => {
    const rest = Object.fromEntries(Object.entries(values).filter(([other]) => other !== name));
    onChange(value === undefined || value === "" ? rest : { ...rest, [name]: value });
  };
  return Object.entries(probe.options.properties).map(([name, schema]) => (
    <div className="field" key={name}>
      <label htmlFor={`option-${name}`}>
        <code>{name}</code> {meaning(schema.description)}
      </label>
      <Field id={`option-${name}`} schema={schema} required={probe.options.required.includes(name)} value={values[name]} onChange={(value) => set(name, value)} />
      <span className="bad">{problem?.of(`options/${name}`)}</span>
    </div>
  ));
}

interface FieldProps {
  id: string;
  schema: Schema;
  required: boolean;
  value: Value | undefined;
  onChange: (value: Value | undefined) => void;
}

function Field({ id, schema, required, value, onChange }: FieldProps) {
  const usual = schema.default === null || schema.default === undefined ? "" : String(schema.default);
  if (schema.enum) {
    return (
      <select id={id} value={String(value ?? usual)} onChange={(event) => onChange(event.target.value === usual ? undefined : event.target.value)}>
        {schema.enum.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    );
  }
  if (schema.type === "boolean") {
    const on = value ?? schema.default === true;
    return (
      <input id={id} type="checkbox" checked={Boolean(on)} onChange={(event) => onChange(event.target.checked === schema.default ? undefined : event.target.checked)} />
    );
  }
  if (schema.type === "integer") {
    return (
      <input
        id={id}
        type="number"
        min={schema.minimum ?? undefined}
        max={schema.maximum ?? undefined}
        required={required}
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
      placeholder={usual}
      required={required}
      defaultValue={words}
      onChange={(event) => {
        const given = event.target.value.split(",").map((word) => word.trim()).filter(Boolean);
        onChange(given.length ? given : undefined);
      }}
    />
  );
}
