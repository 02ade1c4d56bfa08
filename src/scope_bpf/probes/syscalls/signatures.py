"""What the arguments of system calls are: a line for each call, the one definition for showing and for reading them.

A line is a name, a colon, the type of each argument, and behind "=" the result's type if it is not a plain number. A
call whose arguments depend on a command has further lines, with the commands in brackets. What a type is called in
values.py is shown by it; the others:

==================  ===================================================================================
fd, dirfd           a descriptor, followed by what it stands for; AT_FDCWD where a directory is meant
path, path_at       a path; relative to the working directory, or to the dirfd before
text, string        a string; the beginning of one
words               an array of strings
data, filled        a buffer whose size is the next argument; one that the call fills, as far as it did
filled_text         a string that the call makes
sockaddr, filled_sockaddr   an address whose size is the next argument, or is where that points to
pair                two descriptors that the call makes
address             a pointer to what is not read; NULL
int, long, size     a number: signed of 32 and 64 bits, unsigned
hex                 a number, 0x...
created_mode        permission bits, only if the flags before create a file
fixed_address       a pointer, only if the flags before are MREMAP_FIXED
process, user       -1 is a value, too
-                   nothing is shown
fd_state, open_state, persona_state   a result: flags, with their names
same_fd             a result: a descriptor of the file that the first argument stands for
exec                a result: 0 is another program's
==================  ===================================================================================

Calls that are not here are shown as six registers. Arguments are those of the kernel's own functions
(include/linux/syscalls.h), the same on all architectures but for clone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_TEXT = """
read: fd filled size
write: fd data size
pread64: fd filled size long
pwrite64: fd data size long
readv: fd address int
writev: fd address int
preadv: fd address int long
pwritev: fd address int long
open: path open_flags created_mode = fd
openat: dirfd path_at open_flags created_mode = fd
openat2: dirfd path_at address size = fd
creat: path mode = fd
close: fd
close_range: int int hex
stat: path address
lstat: path address
fstat: fd address
newfstatat: dirfd path_at address at_flags
statx: dirfd path_at statx_flags statx_mask address
access: path access
faccessat: dirfd path_at access
faccessat2: dirfd path_at access access_flags
lseek: fd long whence
getdents: fd address size
getdents64: fd address size
readlink: path filled size
readlinkat: dirfd path_at filled size
rename: path path
renameat: dirfd path_at dirfd path_at
renameat2: dirfd path_at dirfd path_at rename_flags
link: path path
linkat: dirfd path_at dirfd path_at at_flags
symlink: text path
symlinkat: text dirfd path_at
unlink: path
unlinkat: dirfd path_at unlink_flags
mkdir: path mode
mkdirat: dirfd path_at mode
rmdir: path
mknod: path mode hex
mknodat: dirfd path_at mode hex
chdir: path
fchdir: fd
chroot: path
getcwd: filled_text size
chmod: path mode
fchmod: fd mode
fchmodat: dirfd path_at mode
fchmodat2: dirfd path_at mode at_flags
chown: path user user
lchown: path user user
fchown: fd user user
fchownat: dirfd path_at user user at_flags
truncate: path long
ftruncate: fd long
fallocate: fd fallocate_flags long long
fadvise64: fd long long file_advice
readahead: fd long size
fsync: fd
fdatasync: fd
syncfs: fd
sync_file_range: fd long long hex
sync:
flock: fd lock
utime: path address
utimes: path address
futimesat: dirfd path_at address
utimensat: dirfd path_at address at_flags
statfs: path address
fstatfs: fd address
umask: mode = mode
getxattr: path string address size
lgetxattr: path string address size
fgetxattr: fd string address size
setxattr: path string address size xattr_flags
lsetxattr: path string address size xattr_flags
fsetxattr: fd string address size xattr_flags
listxattr: path address size
llistxattr: path address size
flistxattr: fd address size
removexattr: path string
lremovexattr: path string
fremovexattr: fd string
mount: text path string hex address
umount2: path hex
pivot_root: path path
dup: fd = same_fd
dup2: fd fd = same_fd
dup3: fd fd dup_flags = same_fd
pipe: pair
pipe2: pair pipe_flags
fcntl: fd fcntl_command hex
fcntl[F_DUPFD F_DUPFD_CLOEXEC]: fd fcntl_command int = same_fd
fcntl[F_GETFD]: fd fcntl_command = fd_state
fcntl[F_SETFD]: fd fcntl_command fd_flags
fcntl[F_GETFL]: fd fcntl_command = open_state
fcntl[F_SETFL]: fd fcntl_command open_flags
fcntl[F_GETOWN F_GETSIG F_GETLEASE F_GETPIPE_SZ F_GET_SEALS]: fd fcntl_command
fcntl[F_GETLK F_SETLK F_SETLKW F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW]: fd fcntl_command address
fcntl[F_SETPIPE_SZ]: fd fcntl_command int
ioctl: fd ioctl_command hex
ioctl[TCGETS TCSETS TCSETSW TCSETSF TIOCGPGRP TIOCSPGRP TIOCGWINSZ TIOCSWINSZ TIOCGPTN TIOCSPTLCK FIONREAD FIONBIO \
FIOASYNC TIOCOUTQ]: fd ioctl_command address
ioctl[FIOCLEX FIONCLEX]: fd ioctl_command
sendfile: fd fd address size
splice: fd address fd address size hex
tee: fd fd size hex
vmsplice: fd address size hex
copy_file_range: fd address fd address size hex
mmap: address size protection map_flags fd hex = address
munmap: address size
mprotect: address size protection
pkey_mprotect: address size protection int
mremap: address size size remap_flags fixed_address = address
msync: address size sync_flags
madvise: address size advice
mlock: address size
mlock2: address size hex
munlock: address size
mlockall: hex
munlockall:
mincore: address size address
brk: address = address
memfd_create: string memfd_flags = fd
memfd_secret: hex = fd
shmget: hex size hex
shmat: int address hex = address
shmdt: address
execve: path words address = exec
execveat: dirfd path_at words address at_flags = exec
exit: int
exit_group: int
fork:
vfork:
clone: clone_flags address address address address
clone3: address size
unshare: unshare_flags
setns: fd unshare_flags
wait4: process address wait4_flags address
waitid: id_kind int address wait_flags address
kill: process signal
tkill: int signal
tgkill: int int signal
rt_sigaction: signal address address size
rt_sigprocmask: mask_change address address size
rt_sigreturn:
rt_sigsuspend: address size
rt_sigtimedwait: address address address size
rt_sigpending: address size
rt_sigqueueinfo: int signal address
rt_tgsigqueueinfo: int int signal address
sigaltstack: address address
signalfd4: fd address size signalfd_flags = fd
pidfd_open: int hex = fd
pidfd_send_signal: fd signal address hex
pidfd_getfd: fd int hex = fd
pause:
alarm: int
getitimer: int address
setitimer: int address address
getpid:
gettid:
getppid:
getpgrp:
getpgid: int
setpgid: int int
getsid: int
setsid:
getuid:
geteuid:
getgid:
getegid:
setuid: user
setgid: user
setreuid: user user
setregid: user user
setresuid: user user user
setresgid: user user user
getresuid: address address address
getresgid: address address address
setfsuid: user
setfsgid: user
getgroups: int address
setgroups: int address
capget: address address
capset: address address
prctl: prctl_command hex hex hex hex
prctl[PR_SET_NAME]: prctl_command string
prctl[PR_GET_NAME PR_GET_PDEATHSIG]: prctl_command address
prctl[PR_SET_PDEATHSIG]: prctl_command signal
prctl[PR_GET_DUMPABLE PR_GET_KEEPCAPS PR_GET_SECCOMP]: prctl_command
prctl[PR_SET_KEEPCAPS]: prctl_command int
arch_prctl: arch_command address
arch_prctl[ARCH_SET_FS ARCH_SET_GS]: arch_command address
set_tid_address: address
set_robust_list: address size
get_robust_list: int address address
rseq: address hex rseq_flags hex
getrlimit: limit address
setrlimit: limit address
prlimit64: int limit address address
getrusage: usage address
getpriority: priority_kind int
setpriority: priority_kind int int
sched_yield:
sched_getaffinity: int size address
sched_setaffinity: int size address
sched_getparam: int address
sched_getscheduler: int
ptrace: int int address address
personality: persona = persona_state
uname: address
sysinfo: address
syslog: int address int
sethostname: data size
times: address
getcpu: address address address
getrandom: address size random_flags
futex: address futex_command uint address address hex
futex[FUTEX_WAIT FUTEX_LOCK_PI FUTEX_LOCK_PI2]: address futex_command uint address
futex[FUTEX_WAKE]: address futex_command uint
futex[FUTEX_UNLOCK_PI FUTEX_TRYLOCK_PI]: address futex_command
futex[FUTEX_WAIT_BITSET]: address futex_command uint address address futex_bits
futex[FUTEX_WAKE_BITSET]: address futex_command uint - - futex_bits
futex[FUTEX_REQUEUE]: address futex_command uint uint address
futex[FUTEX_CMP_REQUEUE]: address futex_command uint uint address uint
nanosleep: address address
clock_nanosleep: clock timer_flags address address
clock_gettime: clock address
clock_settime: clock address
clock_getres: clock address
gettimeofday: address address
settimeofday: address address
time: address
timer_create: clock address address
timer_settime: int timer_flags address address
timer_gettime: int address
timer_delete: int
timerfd_create: clock timerfd_flags = fd
timerfd_settime: fd timer_flags address address
timerfd_gettime: fd address
select: int address address address address
pselect6: int address address address address address
poll: address uint int
ppoll: address uint address address size
epoll_create: int = fd
epoll_create1: epoll_flags = fd
epoll_ctl: fd epoll_command fd address
epoll_wait: fd address int int
epoll_pwait: fd address int int address size
epoll_pwait2: fd address int address address size
eventfd: uint = fd
eventfd2: uint event_flags = fd
inotify_init: = fd
inotify_init1: inotify_flags = fd
inotify_add_watch: fd path hex
inotify_rm_watch: fd int
socket: family socket_type protocol = fd
socketpair: family socket_type protocol pair
bind: fd sockaddr int
connect: fd sockaddr int
listen: fd int
accept: fd filled_sockaddr address = fd
accept4: fd filled_sockaddr address socket_flags = fd
getsockname: fd filled_sockaddr address
getpeername: fd filled_sockaddr address
sendto: fd data size message_flags sockaddr uint
recvfrom: fd filled size message_flags filled_sockaddr address
sendmsg: fd address message_flags
recvmsg: fd address message_flags
sendmmsg: fd address uint message_flags
recvmmsg: fd address uint message_flags address
shutdown: fd shutdown_how
setsockopt: fd socket_level socket_option address int
getsockopt: fd socket_level socket_option address address
io_uring_setup: uint address = fd
io_uring_enter: fd uint uint hex address size
io_uring_register: fd uint address uint
perf_event_open: address int int int hex = fd
bpf: int address size
seccomp: uint hex address
userfaultfd: hex = fd
fanotify_init: hex open_flags = fd
landlock_create_ruleset: address size hex = fd
"""


@dataclass(frozen=True)
class Signature:
    """The types of a call's arguments and of its result ("" if it is a plain number), as its line has them."""

    arguments: tuple[str, ...]
    result: str = ""


@dataclass(frozen=True)
class Call:
    """A call's signature, and the others that it has by command: of which argument, and by the command's name."""

    plain: Signature
    by_command: Mapping[str, Signature] = field(default_factory=dict)

    @property
    def command(self) -> int:
        """Which argument is the command, if there are signatures by command."""
        return next(place for place, type_ in enumerate(self.plain.arguments) if type_ in COMMANDS)


COMMANDS = ("fcntl_command", "ioctl_command", "prctl_command", "arch_command", "futex_command")


def _parse(text: str) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    for line in filter(None, text.splitlines()):
        head, _, types = line.partition(":")
        name, _, commands = head.rstrip("]").partition("[")
        arguments, _, result = types.partition("=")
        signature = Signature(tuple(arguments.split()), result.strip())
        if not commands:
            calls[name] = Call(signature)
            continue
        by_command = {**calls[name].by_command, **dict.fromkeys(commands.split(), signature)}
        calls[name] = Call(calls[name].plain, by_command)
    return calls


CALLS: Mapping[str, Call] = _parse(_TEXT)
