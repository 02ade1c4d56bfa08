interface Props {
  values: number[];
  label: string;
}

const [WIDE, HIGH] = [120, 22];

/** A small line of values in the order of their times, from 0 to the largest. */
export function Spark({ values, label }: Props) {
  const most = Math.max(1, ...values);
  const x = (number: number) => 1 + (number / Math.max(1, values.length - 1)) * (WIDE - 2);
  const points = values.map((value, number) => `${x(number).toFixed(1)},${(HIGH - 2 - (value / most) * (HIGH - 4)).toFixed(1)}`);
  return (
    <svg className="spark" role="img" aria-label={label} width={WIDE} height={HIGH} viewBox={`0 0 ${WIDE} ${HIGH}`}>
      <polygon points={`1,${HIGH} ${points.join(" ")} ${x(values.length - 1)},${HIGH}`} fill="var(--accent-soft)" />
      <polyline points={points.join(" ")} fill="none" stroke="var(--accent)" strokeWidth={1.4} />
    </svg>
  );
}
