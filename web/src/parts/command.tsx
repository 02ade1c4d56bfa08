import { useLingui } from "@lingui/react/macro";
import { useState } from "react";

/** A command for a terminal, to be copied. */
export function Command({ text }: { text: string }) {
  const { t } = useLingui();
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <div className="row command">
      <code className="break">{text}</code>
      <button type="button" onClick={() => void copy()}>
        {copied ? t`Copied` : t`Copy`}
      </button>
    </div>
  );
}

/** A word as a POSIX shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
