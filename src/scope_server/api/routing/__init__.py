"""What a route is, and how requests pass it.

callers and rates (who may call, how often), models (types of parameters, bodies and answers), route (the declaration),
cookies (of the console), call (what a handler gets); then in the order of a request: proxies, latencies, cross_origin,
admission, input, validation, dispatch, compression, web_socket, problems, headers.
"""
