/* Between assembler*.c and nvjitlink.c only. */
#pragma once
#include "runtime/assembler.h"

/* What came out of an assembler. Takes both; log is its report as text. */
Assembly *assembly_new(GBytes *cubin, char *log);

/* ---- the cache, which may be NULL ---- */

/* What a tool said of itself, kept by its file's identity: path, size, time, inode. */
bool tool_recall(Cache *cache, Assembler *assembler);
void tool_remember(Cache *cache, const Assembler *assembler);
void assembly_remember(const Assembler *assembler, const char *hash, const char *target,
                       const Assembly *assembly);

/* ---- nvJitLink ---- */

typedef struct NvJitLink NvJitLink;
/* Never closed: it does not bear being unloaded. ERROR_MISSING_TOOL "no-nvjitlink" says where was looked. */
NvJitLink *nvjitlink_open(char **path, char **version, GError **error);
void nvjitlink_free(NvJitLink *library);
/* As assembler_run(). */
Assembly *nvjitlink_run(const NvJitLink *library, const char *name, const char *ptx, const char *target,
                        GError **error);
