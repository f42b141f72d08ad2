/* Prices of products that the judge asks for (copies.c); negative: no tile is legal. */
#pragma once
#include "generator/choose/problem.h"

/* The cheapest tile's clocks for m rows, `bounded`: known to be no more. `group`: by warpgroup MMAs. */
double choose_tiles_clocks(const Problem *problem, bool group, int64_t m, bool bounded);
/* The cheapest kernel's where operands have odd rows, which threads copy by so many bytes. */
double choose_odd_clocks(const Problem *problem, int64_t m, bool bounded, unsigned bytes);
