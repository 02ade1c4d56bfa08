"""`python -m scope_bpf` prints the content of scope_catalogue/catalogue.json, which the build writes."""

import json
import sys

from scope_bpf.catalogue.described import described
from scope_bpf.probes import probes
from scope_catalogue.catalogue import written

json.dump(written(map(described, probes().values())), sys.stdout, indent=1)
