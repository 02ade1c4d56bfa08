import { useEffect, useRef, useState } from "react";

/**
 * A text that is typed here and kept elsewhere, such as in the address: it is shown at once, because what keeps it may be
 * later than the next key, and it follows when it is changed there.
 */
export function useMirrored(kept: string, keep: (text: string) => void): [string, (text: string) => void] {
  const [text, setText] = useState(kept);
  const typed = useRef<string[]>([]); // what was typed, and is not kept yet
  useEffect(() => {
    const echo = typed.current.lastIndexOf(kept);
    if (echo >= 0) typed.current = typed.current.slice(echo + 1);
    else setText(kept);
  }, [kept]);
  const type = (next: string) => {
    typed.current.push(next);
    setText(next);
    keep(next);
  };
  return [text, type];
}
