"""What is stored, pushed to programs of others: OpenTelemetry collectors and InfluxDB.

contract (what is sent; sources, targets), minutes, spans, own_metrics (sources), files (that processes of spans use),
series (how many different labels), otlp/ and influxdb/ (targets), push (one source to one target, with pauses, bounds
and counts), exports (all of them; of several servers, one pushes what is stored).
"""
