"""What a route is, and how requests pass it.

callers and rates (who may call, how often), models (types of parameters, bodies and answers), route (the declaration),
call (what a handler gets); then in the order of a request: admission, input, validation, dispatch, problems.
"""
