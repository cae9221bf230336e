"""Independent computation of the first draws of rng_init(1, 2), for tests/unit/test_rng.c."""
M = (1 << 64) - 1


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & M
    z = x
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
    return x, z ^ (z >> 31)


def mix2(a, b):
    return splitmix(splitmix(a)[1] ^ b)[1]


def rotl(x, k):
    return ((x << k) | (x >> (64 - k))) & M


def draws(seed, stream, n):
    x = mix2(mix2(0x7065726967656531, seed), stream)
    s = []
    for _ in range(4):
        x, z = splitmix(x)
        s.append(z)
    for _ in range(n):
        yield (rotl((s[1] * 5) & M, 7) * 9) & M
        t = (s[1] << 17) & M
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)


for value in draws(1, 2, 2):
    print(hex(value))
