"""What people should know about the probe `system`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example("scope trace system --duration 2", "the machine: processors, memory, disks and network"),
        Example(
            "scope trace system --lines --duration 6",
            "the same as lines, with processes and cgroups, which are read every 5 s",
        ),
    ),
    notes=(
        "A row an interval (`-o interval_ms=1000`). Counts are of the interval, so the first row has none.",
        "`cpu_pressure_percent` and so on are the shares of the interval in which some thread waited for the resource, "
        "`..._stalled_percent` those in which all did (PSI).",
        "`system_process` has rows of processes that did something in the last 5 s; idle ones have none.",
        "`system_cgroup` has rows of cgroups that did something in the last 5 s, from the files of cgroup v2; in its "
        "first reading, of all that ever used anything, without counts.",
        "Processes and cgroups are read every 5 s. Where there are so many that reading them would take over 0.4 % of "
        "a core each, they are read less often; `interval_ns` has the time.",
    ),
    limits=(
        "Processes that start and end between two readings have no row: `scope trace process` has each.",
        "Partitions have rows beside their disk: do not add them.",
        "A cgroup's figures include those of the cgroups below it: do not add them. CPU limits and their throttling "
        "are of the cgroup alone.",
        "What a cgroup used between its last reading and its end has no row.",
        "Disk I/O of cgroups leaves out LVM, RAID, encryption and loop devices: it counts at the disks below them.",
        "A controller that is not switched on for a cgroup (`cgroup.subtree_control`) counts nothing there. cgroup v1 "
        "tells no pressure, no memory events but the cgroup's own OOM kills, and no `cgroup_id`.",
        "The kernel's files do not tell the network traffic of a process: `scope trace net,udp --mode summary` has it.",
    ),
)
