#!/usr/bin/env python3
"""Coefficients of templates/math.ir, math_narrow.ir and math_wide.ir: minimax polynomials by the Remez exchange, rounded to f32 (math_wide.ir:
f64) one by one.

Each line printed is a polynomial, its coefficients from the lowest power, and the largest error of the rounded
polynomial with its weight, as a power of two. Needs mpmath. Nothing runs this: it says where the numbers come from."""
import struct
import mpmath as mp

mp.mp.prec = 120


def f32(x):
    return mp.mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def remez(target, weight, low, high, first, last):
    """Coefficients of x^first .. x^last that minimise max |weight (target - p)| on [low, high]."""
    n = last - first + 2
    points = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (n - i - mp.mpf("0.6")) / n) for i in range(n)]
    grid = [low + (high - low) * mp.mpf(i) / 1200 for i in range(1201)]
    values = [(x, target(x), weight(x)) for x in grid]
    best = None
    for _ in range(10):
        rows, right = mp.matrix(n, n), mp.matrix(n, 1)
        for i, x in enumerate(points):
            for k in range(n - 1):
                rows[i, k] = weight(x) * x ** (first + k)
            rows[i, n - 1] = (-1) ** i
            right[i] = weight(x) * target(x)
        solution = mp.lu_solve(rows, right)
        p = [solution[k] for k in range(n - 1)]
        errors = [w * (t - x**first * mp.polyval(p[::-1], x)) for x, t, w in values]
        worst = max(map(abs, errors))
        if best is None or worst < best[0]:
            best = worst, p
        extremes, run = [], 0
        for i in range(1, len(errors) + 1):  # the largest error of each run of one sign
            if i == len(errors) or (errors[i] > 0) != (errors[run] > 0):
                extremes.append(max(range(run, i), key=lambda j: abs(errors[j])))
                run = i
        if len(extremes) < n:
            break
        while len(extremes) > n:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        points = [grid[i] for i in extremes]
    return best[1]


def f64(x):
    return mp.mpf(float(x))


def fit(name, target, weight, low, high, degree, rounded=f32):
    low, high = mp.mpf(low), mp.mpf(high)
    fixed = []
    for k in range(degree + 1):  # round the lowest, fit the others again
        p = remez(lambda x: target(x) - mp.polyval(fixed[::-1] or [0], x), weight, low, high, k, degree)
        fixed.append(rounded(p[0]))
    grid = [low + (high - low) * mp.mpf(i) / 4000 for i in range(4001)]
    worst = max(abs(weight(x) * (target(x) - mp.polyval(fixed[::-1], x))) for x in grid)
    print("%-12s %s   error 2^%.1f" % (name, " ".join(("%.9g" if rounded is f32 else "%.17g") % float(c) for c in fixed), float(mp.log(worst, 2))))
    return fixed


def crossing(name, f, low, high):
    """Where the falling f is 0: a clamp."""
    low, high = mp.mpf(low), mp.mpf(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    print("%-12s %.9g" % (name, float(f32(low))))


E = mp.mpf("1e-6")
HALF_LN2 = mp.log(2) / 2 + mp.mpf("1e-5")
one = lambda x: mp.mpf(1)

# e^r = 1 + r + r^2 p(r)
fit("exp", lambda r: (mp.exp(r) - 1 - r) / r**2, abs, -HALF_LN2 - E / 7, HALF_LN2, 4)
# ln(1 + f) = f - f^2 / 2 + f^3 p(f)
fit("log", lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, lambda f: f**2, -mp.mpf(1) / 3 - E / 7, mp.mpf(1) / 3 + E, 7)
# sin r = r + r^3 p(r^2), cos r = 1 - r^2 / 2 + r^4 p(r^2)
quarter = mp.pi / 4 + mp.mpf("1e-4")
fit("sin", lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E**2, quarter**2, 2)
fit("cos", lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, E, quarter**2, 2)
# asin x = x + x^3 p(x^2) to 1/2
fit("asin", lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E, 0.25, 4)
# atan x = x + x^3 p(x^2) to 1
fit("atan", lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E, 1, 8)
# tanh x = x + x^3 p(x^2) to 0.55
fit("tanh", lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E, 0.3025, 4)
# erf x = x + x p(x^2) to 0.92
fit("erf", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, one, E, 0.8464, 6)
# erfc x = e^-(x p(x)) from 0.92 to 4
fit("erf_tail", lambda x: -mp.log(mp.erfc(x)) / x, lambda x: x * mp.erfc(x), 0.92, 4, 8)
# (1 - Phi(x)) e^(x^2 / 2) = t p(t), t = 1 / (1 + 0.4 x), to 14.5
normal = lambda t: (1 / t - 1) / mp.mpf("0.4")
fit("normal_tail", lambda t: mp.erfc(normal(t) / mp.sqrt(2)) / 2 * mp.exp(normal(t) ** 2 / 2) / t,
    lambda t: t / (mp.erfc(normal(t) / mp.sqrt(2)) / 2 * mp.exp(normal(t) ** 2 / 2)), 1 / (1 + 0.4 * 14.5), 1, 9)
# ln m = 2 (t + t^3 p(t^2)), t = (m - 1) / (m + 1)
fit("log_ext", lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E**2, 0.0295, 3)

# templates/math_narrow.ir
narrow = mp.mpf("1e-9")
# 2^-r = 1 + r p(r)
for name, degree in ("exp2_minus", 3), ("brief", 2):
    fit(name, lambda r: (mp.power(2, -r) - 1) / r if abs(r) > narrow else -mp.log(2),
        lambda r: abs(r) * mp.power(2, r), -0.5 - 1e-4 / 7, 0.5 + 1e-4, degree)
# 1 / (1 + e) = 1 + e p(e)
for name, degree in ("gate", 5), ("brief", 3):
    fit(name, lambda e: -1 / (1 + e), lambda e: e * (1 + e), E, 1, degree)
# (1 - e) / (1 + e) = 1 + e p(e) to e^-1.58
fit("tanh_far", lambda e: -2 / (1 + e), lambda e: e, narrow, mp.exp(-2 * mp.mpf("0.79")), 2)
# tanh x = x + x^3 p(x^2) to 0.8
fit("tanh_near", lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E, 0.64, 2)


def share(f, x, power):
    """The root of f(x) / x."""
    return mp.power(f(x) / x if x > narrow else mp.diff(f, 0), mp.mpf(1) / power)


def saturating(name, f, power, high, degree, square):
    """x p(x)^power = f(x), or p(x^2), and 1 at the end: the clamp is next to it, where f32 arithmetic gives 1."""
    high = mp.mpf(high)
    end = high**2 if square else high
    x = lambda v: mp.sqrt(v) if square else v
    target = lambda v: mp.power(1 / high if v == end else f(x(v)) / x(v) if v > narrow else mp.diff(f, 0), mp.mpf(1) / power)
    fit(name, target, lambda v: power / target(v) * (400 if v == end else 1), 0, end, degree)


saturating("tanh", mp.tanh, 2, 4.5, 8, False)
saturating("erf", mp.erf, 4, 3, 6, True)


def tail(name, f, power, high, degree, beyond):
    """x f(x) = x p(x)^power, good to 2^-27 where it is below 2^-13; the clamp is where p is 0."""
    def weight(x):
        return power / mp.power(f(x), mp.mpf(1) / power) * min(1, x * f(x) * 2**13 if x > 1 else 1)
    p = fit(name, lambda x: mp.power(f(x), mp.mpf(1) / power), weight, 0, high, degree)
    crossing("clamp", lambda x: mp.polyval(p[::-1], x), high, beyond)


# the normal distribution's mass above x, and 1 / (1 + e^(2 sqrt(2 / pi) (x + 0.044715 x^3)))
tail("gelu", lambda x: mp.erfc(x / mp.sqrt(2)) / 2, 16, 6.4, 5, 9)
tail("gelu_tanh", lambda x: 1 / (1 + mp.exp(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))), 8, 5.4, 7, 7)

# templates/math_wide.ir
E = mp.mpf("1e-9")
fit("exp", lambda r: (mp.exp(r) - 1 - r) / r**2, abs, -HALF_LN2 - E / 7, HALF_LN2, 10, f64)
# ln(1 + f) = 2 (s + s^3 p(s^2)), s = f / (2 + f); also of what pow has
fit("log", lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E, 0.0295, 7, f64)
# asin x = x + x^3 p(x^2) to 1/2
fit("asin", lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E, 0.25, 12, f64)
# atan x = x + x^3 p(x^2) to tan(pi / 8)
fit("atan", lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: z, E, mp.tan(mp.pi / 8)**2 + E, 10, f64)
# erf x = x + x p(x^2) to 1
fit("erf", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, one, E, 1, 12, f64)
# erfc x = e^-x^2 p(t), t = (x - 3) / (x + 3), from 1 to 28: through the zeros of a Chebyshev polynomial, since the exchange does not converge
low, high, n = -mp.mpf(1) / 2, mp.mpf(25) / 31, 26
points = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
tail = lambda t: mp.erfc(3 * (1 + t) / (1 - t)) * mp.exp((3 * (1 + t) / (1 - t)) ** 2)
solution = mp.lu_solve(mp.matrix([[t**k for k in range(n)] for t in points]), mp.matrix([tail(t) for t in points]))
print("erf_tail     %s" % " ".join("%.17g" % float(c) for c in solution))
