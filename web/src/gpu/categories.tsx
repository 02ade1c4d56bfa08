import { Trans, useLingui } from "@lingui/react/macro";
import { msg } from "@lingui/core/macro";

import { Bars } from "../parts/bars";
import { duration } from "../parts/format";
import { useTotals } from "../parts/series";
import { Empty, Shown } from "../parts/states";

/** What a kernel computes, as far as its name says. The first pattern that matches counts. */
export const CATEGORIES = [
  { name: msg`attention`, pattern: /attn|attention|flash|softmax|rope/i },
  { name: msg`matrix products`, pattern: /gemm|gemv|mul_mat|matmul|mmq|mmv|cutlass|cublas|sgemm|hgemm|wmma/i },
  { name: msg`normalisation`, pattern: /norm/i },
  { name: msg`copies and conversions`, pattern: /copy|cpy|convert|transpose|memset|cast|quantize|dequant|concat|get_rows|set_rows/i },
  { name: msg`reductions`, pattern: /reduce|argmax|argsort|sum|scan|topk/i },
  { name: msg`element by element`, pattern: /elementwise|vectorized|add|mul|scale|silu|gelu|relu|unary|binary|glu/i },
] as const;

const OTHERS = msg`others`;
const SUM = "sum(duration_ns)";

/** Launches by what their kernels compute. */
export function Categories() {
  const { t, i18n } = useLingui();
  const totals = useTotals({ stream: "cuda_launch", by: ["kernel"], cells: [SUM], top: 100, card: t`Launches by kind of kernel` });
  return (
    <section className="card">
      <h2>
        {t`Launches by kind of kernel`}
      </h2>
      <Shown of={totals} height={240}>
        {({ groups }) => {
          const sums = new Map<string, number>();
          for (const group of groups) {
            const kind = CATEGORIES.find((one) => one.pattern.test(String(group.key.kernel)))?.name ?? OTHERS;
            const name = i18n._(kind);
            sums.set(name, (sums.get(name) ?? 0) + (group.values[SUM] ?? 0));
          }
          const bars = [...sums].sort((one, other) => other[1] - one[1]).map(([name, value]) => ({ name, value, told: duration(value) }));
          return bars.length ? <Bars bars={bars} /> : <Empty title={<Trans>Nothing recorded in this window</Trans>} />;
        }}
      </Shown>
      <p className="soft">
        <Trans>By the names of the 100 kernels with the most time, as the CPU launched them: not the time of the GPU itself.</Trans>
      </p>
    </section>
  );
}
