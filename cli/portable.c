/* Only in the portable program: what GIO's archive asks of libmount, of which Debian has no archive. adlgen
 * never asks GIO for mounted file systems, so the tables are empty. */
#include <stddef.h>

/* The addresses of functions that are linked by name; their real types do not matter to callers of an empty
 * table. */
void *mnt_new_table(void);
void mnt_free_table(void *table);
void *mnt_new_iter(int direction);
void mnt_free_iter(void *iterator);
int mnt_table_next_fs(void *table, void *iterator, void **file_system);
int mnt_table_parse_fstab(void *table, const char *path);
int mnt_table_parse_mtab(void *table, const char *path);
int mnt_has_regular_mtab(const char **path, int *writable);
const char *mnt_get_fstab_path(void);
const void *mnt_get_builtin_optmap(int id);
int mnt_optstr_get_flags(const char *text, unsigned long *flags, const void *map);
const char *mnt_fs_get_fstype(void *file_system);
const char *mnt_fs_get_options(void *file_system);
const char *mnt_fs_get_root(void *file_system);
const char *mnt_fs_get_source(void *file_system);
const char *mnt_fs_get_target(void *file_system);
char *mnt_fs_strdup_options(void *file_system);

#define END_OF_TABLE 1

void *mnt_new_table(void)
{
  return NULL;
}

void mnt_free_table(void *table)
{
}

void *mnt_new_iter(int direction)
{
  return NULL;
}

void mnt_free_iter(void *iterator)
{
}

int mnt_table_next_fs(void *table, void *iterator, void **file_system)
{
  return END_OF_TABLE;
}

int mnt_table_parse_fstab(void *table, const char *path)
{
  return 0;
}

int mnt_table_parse_mtab(void *table, const char *path)
{
  return 0;
}

int mnt_has_regular_mtab(const char **path, int *writable)
{
  return 0;
}

const char *mnt_get_fstab_path(void)
{
  return "";
}

const void *mnt_get_builtin_optmap(int id)
{
  return NULL;
}

int mnt_optstr_get_flags(const char *text, unsigned long *flags, const void *map)
{
  return 0;
}

const char *mnt_fs_get_fstype(void *file_system)
{
  return "";
}

const char *mnt_fs_get_options(void *file_system)
{
  return "";
}

const char *mnt_fs_get_root(void *file_system)
{
  return "";
}

const char *mnt_fs_get_source(void *file_system)
{
  return "";
}

const char *mnt_fs_get_target(void *file_system)
{
  return "";
}

char *mnt_fs_strdup_options(void *file_system)
{
  return NULL;
}
