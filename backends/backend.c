#include "backends/backend.h"
#include "backends/ptx/ptx.h"

const Backend backends[] = {
    {"ptx", "ptx", ptx_emit},
    {0},
};
