import { useMirrored } from "./mirrored";
import { type Search, useAddress } from "./search";

interface Props {
  label: string;
  placeholder: string;
  /** The parameter of the address that keeps it. */
  name?: "find" | "flame";
  id?: string;
}

/** A box for what is searched on a screen; the address keeps it. */
export function Find({ label, placeholder, name = "find", id }: Props) {
  const [search, change] = useAddress();
  const [text, type] = useMirrored(search[name] ?? "", (next) => change({ [name]: next || undefined } satisfies Partial<Search>, true));
  return <input type="search" id={id} aria-label={id ? undefined : label} placeholder={placeholder} value={text} onChange={(event) => type(event.target.value)} />;
}
