"""What agent and server share: limits - framing - credentials - addresses - channels - background work.

Neither imports the other; whatever both must agree on has its one home here, or in proto/.
"""
