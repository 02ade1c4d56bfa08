"""What several servers share through Redis. A server that is alone imports nothing of this.

`address` reads the setting, `clients` connects (`cluster` to a Cluster), `link` knows whether Redis answers, and `keys`
names what is kept there. `signals`, `directory` and `limits` are the twins of what a server that is alone has in
memory. Records go from the `outbox` of a receiver to the `intake` of a writer, as the entries that `entry` describes,
by the `scripts`.

Redis never has the only copy of anything: all of it may be lost at any time.
"""
