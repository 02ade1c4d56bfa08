"""Points and spans as the messages of OpenTelemetry's protocol."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from scope_server.exports.contract import Kind, Labels, Point, Span, Value

_SCOPE = InstrumentationScope(name="scope")
_KINDS = {"server": SpanMessage.SPAN_KIND_SERVER, "internal": SpanMessage.SPAN_KIND_INTERNAL}
# As OpenTelemetry calls them: opentelemetry.io/docs/specs/semconv/resource/host
_ATTRIBUTES = {"machine_id": "host.id", "hostname": "host.name"}
_UNITS = {"bytes": "By"}


def metrics(points: Iterable[Point]) -> ExportMetricsServiceRequest:
    """A metric for each value's name: `scope.STREAM.VALUE` of minutes, the metric's own name of others.

    Values of a minute are gauges, at its end: one that is sent again takes the place of the one before.
    """
    by_name: defaultdict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in points:
        for value in point.values:
            by_name[point.of.name, value].append(point)
    request = ExportMetricsServiceRequest()
    of_resource = request.resource_metrics.add(resource=Resource(attributes=[_attribute("service.name", "scope")]))
    of_scope = of_resource.scope_metrics.add(scope=_SCOPE)
    of_scope.metrics.extend(_metric(value, those) for (_, value), those in by_name.items())
    return request


def spans(given: Iterable[Span]) -> ExportTraceServiceRequest:
    """Spans, by the process that served them."""
    by_resource: defaultdict[Labels, list[Span]] = defaultdict(list)
    for span in given:
        by_resource[span.resource].append(span)
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=[_attribute(name, value) for name, value in resource]),
                scope_spans=[ScopeSpans(scope=_SCOPE, spans=map(_span, those))],
            )
            for resource, those in by_resource.items()
        ]
    )


def _metric(value: str, points: Sequence[Point]) -> Metric:
    of = points[0].of
    numbers = [_number(point, value) for point in points if math.isfinite(point.values[value])]
    name = f"scope.{of.name}.{value}" if of.kind is Kind.MINUTE else of.name
    unit = of.units.get(value, "")
    metric = Metric(name=name, description=of.meaning, unit=_UNITS.get(unit, unit))
    if of.kind is Kind.COUNTER:
        cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        metric.sum.CopyFrom(Sum(data_points=numbers, aggregation_temporality=cumulative, is_monotonic=True))
    else:
        metric.gauge.CopyFrom(Gauge(data_points=numbers))
    return metric


def _number(point: Point, name: str) -> NumberDataPoint:
    value = point.values[name]
    told = {"as_int": value} if isinstance(value, int) else {"as_double": value}
    return NumberDataPoint(
        attributes=[_attribute(_ATTRIBUTES.get(label, label), text) for label, text in point.labels],
        start_time_unix_nano=point.since_ns,
        time_unix_nano=point.time_ns,
        **told,
    )


def _span(span: Span) -> SpanMessage:
    attributes: Mapping[str, str | Value] = span.attributes
    return SpanMessage(
        trace_id=span.trace_id,
        span_id=span.span_id,
        name=span.name,
        kind=_KINDS.get(span.kind, SpanMessage.SPAN_KIND_INTERNAL),
        start_time_unix_nano=span.begin_ns,
        end_time_unix_nano=span.end_ns,
        attributes=[_attribute(name, value) for name, value in attributes.items()],
        status=Status(code=Status.STATUS_CODE_ERROR) if span.failed else None,
    )


def _attribute(name: str, value: str | Value) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=name, value=AnyValue(string_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    return KeyValue(key=name, value=AnyValue(double_value=value))
