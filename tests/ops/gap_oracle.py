"""The index code "gaps" as docs/wire-format.md specifies it, with Python integers."""

from __future__ import annotations

_ONE = 2**30


class _Model:
    def __init__(self, count, size):
        q = (size - count) * _ONE // size
        u = [_ONE]
        for _ in range(31):
            u.append(u[-1] ** 2 // _ONE * q // _ONE)
        u.append(0)
        first = [2**15] * 128
        for level in range(5):
            for node in range(2**level):
                a, b = (32 >> level) * node, (32 >> level) * (node + 1)
                first[2**level + node] = _share(u[(a + b) // 2] - u[b], u[a] - u[b])
        for e in range(1, 32):
            middle = u[e] * (u[e - 1] * q // _ONE) // _ONE
            first[32 + e] = _share(max(0, middle - u[e + 1]), u[e] - u[e + 1])
        self.estimates = {shift: list(first) for shift in (4, 7)}

    def share(self, context, bit):
        """Returns start and frequency of a bit, and learns the bit."""
        p = min(4064, max(32, sum(estimate[context] for estimate in self.estimates.values()) // 32))
        for shift, estimate in self.estimates.items():
            now = estimate[context]
            estimate[context] += (2**16 - now >> shift) if bit else -(now >> shift)
        return (0, p) if bit else (p, 4096 - p)


def _share(part, whole):
    return min(65024, max(512, part * 2**16 // whole if whole else 2**15))


def _shares(indices, size):
    model, previous = _Model(len(indices), size), -1
    for index in indices:
        m, previous = int(index) - previous, int(index)
        e, node, so_far = m.bit_length() - 1, 1, 0
        for width in (16, 8, 4, 2, 1):
            bit = e // width % 2
            if 2 ** (so_far + width) <= size:
                yield model.share(node, bit)
            node, so_far = 2 * node + bit, so_far + width * bit
        rest = bin(m)[3:]
        if rest:
            yield model.share(32 + e, int(rest[0]))
        if rest[1:]:
            yield model.share(64 + 2 * e + int(rest[0]), int(rest[1]))
        for at in range(2, len(rest), 8):
            part = rest[at : at + 8]
            yield int(part, 2) << 12 - len(part), 1 << 12 - len(part)


def encode(indices, size):
    if len(indices) == 0:
        return b""
    x, taken_in = 2**16, []
    for start, frequency in reversed(list(_shares(indices, size))):
        # Inverts a decoding step, which reads a byte when the state falls below 2^16.
        while x >= frequency << 12:
            taken_in.append(x % 256)
            x //= 256
        x = x // frequency * 4096 + x % frequency + start
    return x.to_bytes(3, "little") + bytes(reversed(taken_in))
