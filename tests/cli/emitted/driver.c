/* A driver that does nothing but tell what it is asked, for tests of the emitted C. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int modules;

int cuModuleLoadData(void **module, const void *image)
{
  const char *elf = image;
  *module = (void *)(intptr_t)++modules;
  printf("load module %d: %s\n", modules, memcmp(elf, "\177ELF", 4) ? "not a cubin" : "a cubin");
  return 0;
}

int cuModuleUnload(void *module)
{
  printf("unload module %d\n", (int)(intptr_t)module);
  return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
  *function = module;
  printf("function of module %d: %s\n", (int)(intptr_t)module, name);
  return 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
  printf("attribute %d of function %d: %d\n", attribute, (int)(intptr_t)function, value);
  return 0;
}

typedef struct attribute {
  int id, padding;
  union {
    unsigned cluster[3];
    int allowed;
    char bytes[64];
  } value;
} attribute;

typedef struct config {
  unsigned grid[3], block[3], shared;
  void *stream;
  attribute *attributes;
  unsigned n_attributes;
} config;

int cuLaunchKernelEx(const void *memory, void *function, void **arguments, void **extra)
{
  const config *c = memory;
  (void)arguments;
  (void)extra;
  printf("launch function %d: grid %u %u %u, block %u %u %u, shared %u", (int)(intptr_t)function, c->grid[0],
         c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared);
  for (unsigned i = 0; i < c->n_attributes; i++)
    if (c->attributes[i].id == 4)
      printf(", cluster %u %u %u", c->attributes[i].value.cluster[0], c->attributes[i].value.cluster[1],
             c->attributes[i].value.cluster[2]);
    else
      printf(", attribute %d", c->attributes[i].id);
  puts("");
  return 0;
}

int cuMemsetD8Async(uint64_t address, unsigned char value, size_t n, void *stream)
{
  (void)stream;
  printf("fill %zu bytes at %llx with %u\n", n, (unsigned long long)address, value);
  return 0;
}

int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int l2_promotion, int fill)
{
  memset(map, 0, 128);
  printf("tensor map: type %d, address %llx, dims", type, (unsigned long long)(uintptr_t)address);
  for (uint32_t i = 0; i < rank; i++)
    printf(" %llu", (unsigned long long)dims[i]);
  printf(", strides");
  for (uint32_t i = 0; i + 1 < rank; i++)
    printf(" %llu", (unsigned long long)strides[i]);
  printf(", box");
  for (uint32_t i = 0; i < rank; i++)
    printf(" %u/%u", box[i], steps[i]);
  printf(", interleave %d, swizzle %d, l2 %d, fill %d\n", interleave, swizzle, l2_promotion, fill);
  return 0;
}
