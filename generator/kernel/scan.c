/* Scans: the prologue and epilogue of a row kernel around their template. */
#include "generator/program/scan.h"
#include "generator/kernel/kernel.h"

bool kernel_write_scan(KernelBuild *build)
{
  const FusedScan *scan = scan_of(build->op);
  kernel_bind_dim(build, "R", scan->rows);
  kernel_bind_dim(build, "C", scan->columns);
  kernel_add_operands(build, 0);
  return kernel_write_row_prologue(build, &scan->source, scan->compute, true) &&
         kernel_write_row_epilogue(build, scan->compute);
}
