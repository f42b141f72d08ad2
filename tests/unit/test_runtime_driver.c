/* The driver's loader, against a stand-in of it (fake_driver.c) that the loader finds by LD_LIBRARY_PATH. */
#include "runtime/driver.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static Device *open_fake(void)
{
  GError *error = NULL;
  Device *device = device_open(0, &error);
  if (!device) fail_msg("%s", error->message);
  return device;
}

static void assert_error(GError *error, int code, const char *part)
{
  assert_non_null(error);
  assert_int_equal(error->code, code);
  if (!strstr(error->message, part)) fail_msg("`%s` is not in `%s`", part, error->message);
  g_error_free(error);
}

static void opens_and_names(void **state)
{
  g_autoptr(Device) device = open_fake();
  assert_string_equal(device_name(device), "Stand-in");
  assert_int_equal(device_capability(device), 90);
  GError *error = NULL;
  assert_null(device_open(3, &error));
  assert_error(error, ERROR_MISSING_TOOL, "there is no GPU 3");
}

static void translates_targets(void **state)
{
  g_autoptr(Device) device = open_fake();
  static const char *const runs[][2] = {
      {"sm_80", "sm_90"}, {"sm_89", "sm_90"}, {"sm_90a", "sm_90a"}, {"sm_90", "sm_90"}};
  for (unsigned i = 0; i < G_N_ELEMENTS(runs); i++) {
    g_autofree char *target = device_target(device, runs[i][0], NULL);
    assert_string_equal(target, runs[i][1]);
  }
  static const char *const refused[] = {"sm_100", "sm_120a", "sm_87a"};
  for (unsigned i = 0; i < G_N_ELEMENTS(refused); i++) {
    GError *error = NULL;
    assert_null(device_target(device, refused[i], &error));
    assert_error(error, ERROR_UNSUPPORTED, "compute capability 9.0");
  }
}

static void moves_memory(void **state)
{
  g_autoptr(Device) device = open_fake();
  uint8_t data[4] = {1, 2, 3, 4}, back[4] = {0};
  uint64_t address = device_allocate(device, sizeof data, NULL);
  assert_true(address && address % 256 == 0);
  assert_true(device_write(device, address, data, sizeof data, NULL));
  assert_true(device_fill(device, address + 1, 9, 2, NULL));
  assert_true(device_read(device, back, address, sizeof back, NULL));
  assert_memory_equal(back, ((uint8_t[]){1, 9, 9, 4}), 4);
  device_release(device, address);
  GError *error = NULL;
  assert_int_equal(device_allocate(device, UINT64_C(1) << 50, &error), 0);
  assert_error(error, ERROR_UNSUPPORTED, "cannot allocate");
}

static DeviceKernel *load(Device *device, const char *text, const char *entry, unsigned shared,
                          GError **error)
{
  g_autoptr(GBytes) cubin = g_bytes_new(text, strlen(text) + 1);
  return device_load(device, "kernel", cubin, entry, shared, error);
}

static void launches(void **state)
{
  g_autoptr(Device) device = open_fake();
  g_autoptr(DeviceKernel) kernel = load(device, "entry", "entry", 1000, NULL);
  uint64_t address = device_allocate(device, 64, NULL);
  void *arguments[] = {&address};
  DeviceLaunch launch = {{5, 6, 7}, {128, 1, 1}, {2, 1, 1}, 1000, true, arguments};
  unsigned seen[11];
  assert_true(device_launch(device, kernel, &launch, NULL) && device_wait(device, NULL));
  assert_true(device_read(device, seen, address, sizeof seen, NULL));
  assert_memory_equal(seen, ((unsigned[]){5, 6, 7, 128, 1, 1, 2, 1, 1, 1000, 1}), sizeof seen);
  device_release(device, address);
}

static void encodes_tensor_maps(void **state)
{
  g_autoptr(Device) device = open_fake();
  DeviceBox box = {.element = NUMBER_BF16,
                   .rank = 2,
                   .address = 4096,
                   .dims = {100, 7},
                   .strides = {208},
                   .box = {64, 4},
                   .swizzle = 128,
                   .l2_promotion = 256,
                   .fill_nan = true};
  DeviceTensorMap map;
  assert_true(device_encode(device, "a", &box, &map, NULL));
  static const uint64_t expected[12] = {9, 2, 4096, 100, 7, 64, 1, 0, 3, 3, 1, 208};
  assert_memory_equal(map.words, expected, sizeof expected);
  box.strides[0] = 200;
  GError *error = NULL;
  assert_false(device_encode(device, "a", &box, &map, &error));
  assert_error(error, ERROR_INTERNAL, "stride 200");
}

static void reports_failures(void **state)
{
  g_autoptr(Device) device = open_fake();
  GError *error = NULL;
  assert_null(load(device, "broken", "entry", 0, &error));
  assert_error(error, ERROR_VERIFY, "cannot load kernel");
  error = NULL;
  assert_null(load(device, "entry", "other", 0, &error));
  assert_error(error, ERROR_VERIFY, "cannot load kernel");
  error = NULL;
  assert_null(load(device, "entry", "entry", 300000, &error));
  assert_error(error, ERROR_VERIFY, "300000 bytes");
  error = NULL;
  g_autoptr(DeviceKernel) kernel = load(device, "crash", "crash", 0, NULL);
  DeviceLaunch launch = {{1, 1, 1}, {32, 1, 1}, {1, 1, 1}, 0, false, NULL};
  assert_true(device_launch(device, kernel, &launch, NULL));
  assert_false(device_wait(device, &error));
  assert_error(error, ERROR_VERIFY, "unspecified launch failure");
}

static void gives_what_is_beside_it(void **state)
{
  g_autoptr(Device) device = open_fake();
  assert_non_null(device_stream(device));
  assert_non_null(device_symbol(device, "cuInit"));
  assert_null(device_symbol(device, "cuNoSuchFunction"));
  assert_int_equal(device_attribute(device, 75), 9);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opens_and_names),
      cmocka_unit_test(translates_targets),
      cmocka_unit_test(moves_memory),
      cmocka_unit_test(launches),
      cmocka_unit_test(encodes_tensor_maps),
      cmocka_unit_test(reports_failures),
      cmocka_unit_test(gives_what_is_beside_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
