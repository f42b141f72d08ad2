"""What adlgen.Sample draws, by its definition in docs/graph.md, in double precision but where it says f32."""
import math
import struct

ROUNDS = 10


def philox(counter, key):
    a, b, c, d = counter
    k, m = key & 0xffffffff, key >> 32 & 0xffffffff
    for _ in range(ROUNDS):
        first, second = 0xd2511f53 * a, 0xcd9e8d57 * c
        a, b, c, d = second >> 32 ^ b ^ k, second & 0xffffffff, first >> 32 ^ d ^ m, first & 0xffffffff
        k, m = k + 0x9e3779b9 & 0xffffffff, m + 0xbb67ae85 & 0xffffffff
    return a


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def noise(token, row, seed, offset):
    v = min(f32((f32(philox((token, row, offset & 0xffffffff, 0), seed)) + 0.5) * 2.0**-32), 1 - 2.0**-24)
    return -math.log(-math.log1p(-v))


def order(logits):
    return sorted(range(len(logits)), key=lambda i: (-logits[i], i))


def sample(logits, row, temperature=1.0, k=None, p=None, seed=0, offset=0, candidates=None):
    """The token, and how far the next one was behind."""
    left = range(len(logits))
    if candidates == 0:  # whole rows: of equal logits all are left, or none
        left = order(logits)
        if k is not None and k > 0:
            left = [i for i in left if logits[i] >= logits[left[min(k, len(left)) - 1]]]
        if p is not None and p < 1:
            weights = [1.0 if logits[i] == logits[left[0]] else math.exp((logits[i] - logits[left[0]]) / temperature) if temperature else 0.0 for i in left]
            total, above, kept = sum(weights), 0.0, []
            for at, token in enumerate(left):
                if at and logits[token] != logits[left[at - 1]]:
                    above = sum(weights[:at])
                if logits[token] == logits[left[0]] or above < p * total:
                    kept.append(token)
            left = kept
    elif candidates or k is not None or p is not None:
        left = order(logits)[:candidates or 128]
        if k is not None and k > 0:
            left = left[:k]
        if p is not None and p < 1:
            shift = [x - logits[left[0]] for x in (logits[i] for i in left)]
            weights = [1.0 if x == 0 else math.exp(x / temperature) if temperature else 0.0 for x in shift]
            total, before, kept = sum(weights), 0.0, []
            for token, weight in zip(left, weights):
                if not kept or before < p * total:
                    kept.append(token)
                before += weight
            left = kept
    scores = sorted(((-(logits[i] + temperature * noise(i, row, seed, offset)), i) for i in left))
    return scores[0][1], math.inf if len(scores) == 1 else scores[1][0] - scores[0][0]
