"""A ring of numbers, for programs that tell little: its descriptor becomes readable when there are any."""

import mmap
import struct

_HEADER, _NUMBER = struct.Struct("=I4x"), struct.Struct("=Q")  # include/uapi/linux/bpf.h: BPF_RINGBUF_HDR_SZ
_BUSY = 1 << 31  # BPF_RINGBUF_BUSY_BIT: being written
_RECORD = _HEADER.size + _NUMBER.size


class IdRing:
    """Reads a ring whose records are 64-bit numbers. For one thread.

    Args:
        fd: of the ring.
        size: in bytes.

    Raises:
        OSError: it cannot be mapped.
    """

    def __init__(self, fd: int, size: int) -> None:
        # The consumer's position, then the producer's, each in a page, then the data twice: records never wrap.
        self._consumed = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self._produced = mmap.mmap(fd, mmap.PAGESIZE + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=mmap.PAGESIZE)
        self._size = size

    def take(self) -> list[int]:
        """The numbers that were not taken before."""
        taken = []
        (at,), (end,) = _NUMBER.unpack_from(self._consumed), _NUMBER.unpack_from(self._produced)
        while at < end:
            place = mmap.PAGESIZE + at % self._size
            if _HEADER.unpack_from(self._produced, place)[0] & _BUSY:
                break
            taken.append(_NUMBER.unpack_from(self._produced, place + _HEADER.size)[0])
            at += _RECORD
        _NUMBER.pack_into(self._consumed, 0, at)
        return taken

    def close(self) -> None:
        """Unmaps it."""
        self._consumed.close()
        self._produced.close()
