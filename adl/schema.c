#include "adl/schema.h"
#include <string.h>

const Section schema_sections[] = {
    {"", false, false, true,
     "beside what says what the file is: `adl`, `name` or `architecture`, `product`, `aliases`, `extends`, "
     "`model`, `sources`"},
    {"limits", false, false, true, "what one SM and one block may hold"},
    {"latency", false, false, true, "cycles from issue to use of the result"},
    {"throughput", false, false, true, "results of all lanes per clock and SM"},
    {"chip", false, true, true, "what one product has"},
    {"peaks", false, true, false,
     "dense peaks as the vendor states them; checked against SMs x rate x clock within 2 %"},
    {"measured", false, true, false, "what others measured on the product"},
    {"copy_plain", true, false, true, "ordinary loads and stores through registers"},
    {"copy_async", true, false, false, "global to shared memory without registers, completed by group"},
    {"tma", true, false, false, "boxes of a tensor map, completed by bytes on an mbarrier or by group",
     "copy_tensor"},
    {"thread_fma", true, false, true, "scalar multiply-add", "product_fma"},
    {"warp_mma", true, false, false, "matrix product of one warp, operands in registers", "product_warp"},
    {"warpgroup_mma", true, false, false, "matrix product of four warps, asynchronous", "product_group"},
    {"matrix_load", true, false, false, "8x8 matrices from shared memory to registers"},
    {"matrix_store", true, false, false, "8x8 matrices from registers to shared memory"},
    {"mbarrier", true, false, false, "barrier in shared memory that counts arrivals and bytes",
     "memory_barrier"},
    {"register_reallocation", true, false, false, "registers move between warpgroups at run time",
     "register_handover"},
    {"cluster", true, false, false, "blocks that run together and reach each other's shared memory"},
    {"elect", true, false, false, "one lane of a warp is elected"},
    {"dependent_launch", true, false, false, "a kernel may start before its predecessor has ended"},
    {"lane_reduce", true, false, false, "integer reduction over a warp in one instruction"},
    {"cache_hint", true, false, false, "eviction policies on memory instructions"},
    {"shape", false, false, false, "one entry of a product family's `shapes`: a set of instruction shapes"},
};
const unsigned schema_n_sections = G_N_ELEMENTS(schema_sections);

#define NO_FIELD         FIELD_NONE, 0
#define UNSIGNED(member) FIELD_UNSIGNED, offsetof(Gpu, member)
#define DOUBLE(member)   FIELD_DOUBLE, offsetof(Gpu, member)
#define NEEDED           (RULE_REQUIRED | RULE_POSITIVE)
#define OPEN             (RULE_REQUIRED | RULE_MAY_BE_UNKNOWN) /* must be there, may say `unknown` */
#define OPTIONAL         RULE_MAY_BE_UNKNOWN

#define NUMBER(section, key, unit, flags, field, doc)                                                        \
  {                                                                                                          \
    section, key, RULE_NUMBER, unit, NULL, flags, field, doc                                                 \
  }
#define LIST(section, key, unit, flags, doc)                                                                 \
  {                                                                                                          \
    section, key, RULE_NUMBERS, unit, NULL, flags, NO_FIELD, doc                                             \
  }
#define FLAG(section, key, flags, doc)                                                                       \
  {                                                                                                          \
    section, key, RULE_FLAG, "flag", NULL, flags, NO_FIELD, doc                                              \
  }
#define CHOICE(section, key, choices, flags, doc)                                                            \
  {                                                                                                          \
    section, key, RULE_CHOICE, NULL, choices, flags, NO_FIELD, doc                                           \
  }
#define CHOICES(section, key, choices, flags, doc)                                                           \
  {                                                                                                          \
    section, key, RULE_CHOICES, NULL, choices, flags, NO_FIELD, doc                                          \
  }
#define CYCLES(section, key, flags, doc) NUMBER(section, key, "cycles", flags, NO_FIELD, doc)
#define RATE(section, key, unit, doc)    NUMBER(section, key, unit, OPEN, NO_FIELD, doc)

#define SCOPES      "thread lane warp warpgroup block cluster grid"
#define COMPLETIONS "result thread_group warpgroup_group barrier_bytes barrier_phase immediate kernel_end"
#define PLACES      "registers shared shared_peer global accumulators"
#define LAYOUTS     "mma.a mma.b mma.c group.a group.d shared blocked fma.c cells"

/* What every family says. */
#define FAMILY(name, throughput_unit)                                                                        \
  {name, "ptx", RULE_VERSION, "version", NULL, RULE_REQUIRED, NO_FIELD, "first PTX ISA that has it"},        \
      CHOICE(name, "scope", SCOPES, RULE_REQUIRED, "who issues it"),                                         \
      CHOICE(name, "completion", COMPLETIONS, RULE_REQUIRED, "how one learns that it is done"),              \
      CYCLES(name, "latency", OPEN, "issue to completion"),                                                  \
      RATE(name, "throughput", throughput_unit, "sustained")

#define MOVES(name)                                                                                          \
  CHOICES(name, "reads", PLACES, RULE_REQUIRED, "where data come from"),                                     \
      CHOICES(name, "writes", PLACES, RULE_REQUIRED, "where data go"),                                       \
      CHOICES(name, "layouts", LAYOUTS, RULE_REQUIRED, "layouts it can serve"),                              \
      NUMBER(name, "alignment", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD,                                   \
             "of the addresses, for its largest access")

#define PRODUCT(name)                                                                                        \
  FAMILY(name, "FLOP/clk/SM"), CHOICES(name, "a", PLACES, RULE_REQUIRED, "where operand A may be"),          \
      CHOICES(name, "b", PLACES, RULE_REQUIRED, "where operand B may be"),                                   \
      CHOICES(name, "acc", PLACES, RULE_REQUIRED, "where the accumulator is"),                               \
      CHOICE(name, "layout_a", LAYOUTS, RULE_REQUIRED, "layout of A"),                                       \
      CHOICE(name, "layout_b", LAYOUTS, RULE_REQUIRED, "layout of B"),                                       \
      CHOICE(name, "layout_acc", LAYOUTS, RULE_REQUIRED, "layout of the accumulator"),                       \
      NUMBER(name, "blocks", "blocks", RULE_POSITIVE, NO_FIELD,                                              \
             "of a cluster that take one product together; missing: 1")

const Rule schema_rules[] = {
    {"", "target", RULE_TEXT, NULL, NULL, RULE_REQUIRED, NO_FIELD, "the assembler's .target"},
    {"", "ptx", RULE_VERSION, "version", NULL, RULE_REQUIRED, UNSIGNED(ptx_version),
     "PTX ISA of the emitted text: not below that of any family used"},

    NUMBER("limits", "warp_size", "threads", NEEDED | RULE_POWER_OF_TWO, UNSIGNED(warp_size),
           "lanes of a warp"),
    NUMBER("limits", "threads_per_block", "threads", NEEDED, UNSIGNED(threads_per_block), ""),
    NUMBER("limits", "threads_per_sm", "threads", NEEDED, UNSIGNED(threads_per_sm),
           "= warps_per_sm x warp_size"),
    NUMBER("limits", "warps_per_sm", "warps", NEEDED, UNSIGNED(warps_per_sm), ""),
    NUMBER("limits", "blocks_per_sm", "blocks", NEEDED, UNSIGNED(blocks_per_sm), ""),
    NUMBER("limits", "registers_per_sm", "registers", NEEDED, UNSIGNED(registers_per_sm), "32 bits each"),
    NUMBER("limits", "registers_per_thread", "registers", NEEDED, UNSIGNED(registers_per_thread), ""),
    NUMBER("limits", "register_unit", "registers", NEEDED | RULE_POWER_OF_TWO, UNSIGNED(register_unit),
           "registers a warp allocates at a time"),
    NUMBER("limits", "shared_per_block", "B", NEEDED, UNSIGNED(shared_per_block), "largest, after opting in"),
    NUMBER("limits", "shared_per_sm", "B", NEEDED, UNSIGNED(shared_per_sm), ""),
    NUMBER("limits", "shared_reserved", "B", RULE_REQUIRED, UNSIGNED(shared_reserved),
           "taken by the system from each block"),
    NUMBER("limits", "shared_default", "B", NEEDED, UNSIGNED(shared_default), "largest without opting in"),
    NUMBER("limits", "shared_banks", "banks", NEEDED | RULE_POWER_OF_TWO, UNSIGNED(shared_banks), ""),
    NUMBER("limits", "shared_bank_width", "B", NEEDED | RULE_POWER_OF_TWO, UNSIGNED(shared_bank_bytes), ""),
    NUMBER("limits", "global_sector", "B", NEEDED | RULE_POWER_OF_TWO, UNSIGNED(global_sector),
           "what an access to global memory moves at least"),
    NUMBER("limits", "l1_and_shared", "B", OPTIONAL, NO_FIELD, "L1 cache and shared memory together"),
    LIST("limits", "shared_carveouts", "B", OPTIONAL, "sizes to which shared memory of an SM can be set"),
    NUMBER("limits", "cluster_portable", "blocks", NEEDED, UNSIGNED(cluster_portable), "1 = no clusters"),
    NUMBER("limits", "cluster_max", "blocks", NEEDED, UNSIGNED(cluster_max),
           "with non-portable sizes allowed"),
    NUMBER("limits", "named_barriers", "barriers", NEEDED, UNSIGNED(named_barriers), "per block"),
    NUMBER("limits", "schedulers", "schedulers", NEEDED, NO_FIELD, "warp schedulers of an SM"),

    CYCLES("latency", "alu", OPEN, "integer and logic operations, selects, 32-bit float add"),
    CYCLES("latency", "fma", OPEN, "multiply-add, 32 bits"),
    CYCLES("latency", "fma_f16", OPEN, "packed multiply-add, 16 bits"),
    CYCLES("latency", "fma_f64", OPEN, "multiply-add, 64 bits"),
    CYCLES("latency", "conversion", OPEN, "between number types"),
    CYCLES("latency", "special", OPEN, "exp2, log2, sine, reciprocal, reciprocal square root"),
    CYCLES("latency", "shuffle", OPEN, "a register of another lane"),
    CYCLES("latency", "vote", OPEN, "any, all, ballot over a warp"),
    CYCLES("latency", "shared_load", OPEN, ""),
    CYCLES("latency", "shared_store", OPEN, "until another warp of the block can read it"),
    CYCLES("latency", "peer_load", OPEN, "shared memory of another block of the cluster"),
    CYCLES("latency", "l1_load", OPEN, "hit in L1"),
    CYCLES("latency", "l2_load", OPEN, "hit in the near part of L2"),
    CYCLES("latency", "l2_far_load", OPEN, "hit beyond one L2 partition"),
    CYCLES("latency", "global_load", OPEN, "from global memory"),
    CYCLES("latency", "global_store", OPEN, ""),
    CYCLES("latency", "block_barrier", OPEN, "last arrival to release"),
    CYCLES("latency", "barrier_arrive", OPEN, "mbarrier: arrive"),
    CYCLES("latency", "barrier_wait", OPEN, "mbarrier: phase complete to release"),
    CYCLES("latency", "cluster_barrier", OPEN, "last arrival to release"),

    RATE("throughput", "fma_f32", "op/clk/SM", "multiply-adds"),
    RATE("throughput", "fma_f64", "op/clk/SM", "multiply-adds"),
    RATE("throughput", "fma_f16", "op/clk/SM", "multiply-adds; a packed pair counts 2"),
    RATE("throughput", "integer_add", "op/clk/SM", "32 bits"),
    RATE("throughput", "integer_multiply", "op/clk/SM", "32 bits"),
    RATE("throughput", "special", "op/clk/SM", "as latency.special"),
    RATE("throughput", "conversion", "op/clk/SM", "between 32-bit and narrower types"),
    RATE("throughput", "shuffle", "op/clk/SM", "lanes"),
    RATE("throughput", "shared", "B/clk/SM", "shared memory, without conflicts"),
    RATE("throughput", "l1", "B/clk/SM", "hits in L1"),

    NUMBER("chip", "sm_count", "SMs", NEEDED, UNSIGNED(sm_count), ""),
    NUMBER("chip", "clock_boost", "MHz", NEEDED, DOUBLE(clock_boost_mhz), "highest SM clock"),
    NUMBER("chip", "clock_tensor", "MHz", NEEDED, DOUBLE(clock_tensor_mhz),
           "clock at which matrix peaks are stated"),
    NUMBER("chip", "l2", "B", OPEN, DOUBLE(l2_bytes), ""),
    NUMBER("chip", "memory", "B", OPEN, DOUBLE(memory_bytes), ""),
    CHOICE("chip", "memory_kind", "HBM2 HBM2e HBM3 HBM3e GDDR6 GDDR6X GDDR7 LPDDR5X", OPEN, ""),
    NUMBER("chip", "memory_bandwidth", "B/s", OPEN, DOUBLE(memory_bandwidth), "as specified"),
    NUMBER("chip", "nvlink_bandwidth", "B/s", OPEN, DOUBLE(nvlink_bandwidth),
           "both directions; 0 B/s = none"),
    NUMBER("chip", "clusters_of_2", "clusters", OPTIONAL, NO_FIELD,
           "that run at once where a block fills an SM: their SMs must lie together"),
    NUMBER("chip", "clusters_of_3", "clusters", OPTIONAL, NO_FIELD, ""),
    NUMBER("chip", "clusters_of_4", "clusters", OPTIONAL, NO_FIELD, ""),
    NUMBER("chip", "clusters_of_5", "clusters", OPTIONAL, NO_FIELD, ""),
    NUMBER("chip", "clusters_of_6", "clusters", OPTIONAL, NO_FIELD, ""),
    NUMBER("chip", "clusters_of_7", "clusters", OPTIONAL, NO_FIELD, ""),
    NUMBER("chip", "clusters_of_8", "clusters", OPTIONAL, NO_FIELD, ""),
    NUMBER("chip", "power", "W", OPEN, DOUBLE(power_watts), "limit"),

#define PEAK(type, doc) NUMBER("peaks", type, "FLOP/s", OPTIONAL, NO_FIELD, doc)
    PEAK("f64", "scalar pipe"),
    PEAK("f32", "scalar pipe"),
    PEAK("tf32", ""),
    PEAK("f16", "f32 accumulator"),
    PEAK("f16_f16", "f16 accumulator"),
    PEAK("bf16", ""),
    PEAK("e4m3", "f32 accumulator"),
    PEAK("e4m3_f16", "f16 accumulator"),
    PEAK("e5m2", "f32 accumulator"),
    PEAK("s8", "s32 accumulator"),

    NUMBER("measured", "memory_read", "B/s", OPTIONAL, DOUBLE(memory_bandwidth_read), "reading only"),
    NUMBER("measured", "memory_copy", "B/s", OPTIONAL, NO_FIELD, "bytes read + bytes written"),
    NUMBER("measured", "memory_scale", "B/s", OPTIONAL, NO_FIELD, "read one array, write one"),
    NUMBER("measured", "memory_triad", "B/s", OPTIONAL, NO_FIELD, "read two arrays, write one"),
    NUMBER("measured", "memory_write", "B/s", OPTIONAL, NO_FIELD, "writing only"),
    NUMBER("measured", "l2_read", "B/s", OPTIONAL, NO_FIELD, "hits in L2"),
    NUMBER("measured", "clock_sustained", "MHz", OPTIONAL, NO_FIELD,
           "under a long dense product, random data"),

    FAMILY("copy_plain", "B/clk/SM"),
    MOVES("copy_plain"),
    LIST("copy_plain", "sizes", "B", NEEDED, "bytes per thread; an address is a multiple of its size"),

    FAMILY("copy_async", "B/clk/SM"),
    MOVES("copy_async"),
    LIST("copy_async", "sizes", "B", NEEDED, "bytes per thread; an address is a multiple of its size"),
    LIST("copy_async", "bypass_l1_sizes", "B", OPTIONAL, "sizes that may pass L1 by"),

    FAMILY("tma", "B/clk/SM"),
    MOVES("tma"),
    NUMBER("tma", "shared_alignment", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD, "of the tile, unswizzled"),
    NUMBER("tma", "stride_multiple", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD, "of the tensor's strides"),
    NUMBER("tma", "box_max", "elements", NEEDED, NO_FIELD, "per dimension"),
    NUMBER("tma", "box_row_multiple", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD, "of a box's innermost row"),
    NUMBER("tma", "rank_max", "dimensions", NEEDED, NO_FIELD, ""),
    NUMBER("tma", "map_size", "B", NEEDED, NO_FIELD, "of a tensor map"),
    NUMBER("tma", "map_alignment", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD, "of a tensor map"),
    LIST("tma", "swizzles", "B", RULE_REQUIRED, "widths of the xor swizzle"),
    FLAG("tma", "multicast", RULE_REQUIRED, "one load into several blocks of a cluster"),
    FLAG("tma", "patch_map", RULE_REQUIRED, "a tensor map can be changed on the device"),
    CYCLES("tma", "issue", OPEN, "between two issues of one thread"),
    NUMBER("tma", "bulk_multiple", "B", RULE_POSITIVE | RULE_POWER_OF_TWO, NO_FIELD,
           "of pieces of memory that it loads without a tensor map; absent: it loads none"),
    CHOICE("tma", "store_completion", COMPLETIONS, RULE_REQUIRED, "of stores"),

    FAMILY("thread_fma", "FLOP/clk/SM"),
    {"thread_fma", "types", RULE_TYPES, NULL, NULL, RULE_REQUIRED, NO_FIELD, "operand types"},
    CHOICE("thread_fma", "layout_acc", LAYOUTS, RULE_REQUIRED, "layout of the accumulator"),

    PRODUCT("warp_mma"),
    PRODUCT("warpgroup_mma"),
    NUMBER("warpgroup_mma", "alignment", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD,
           "of an operand tile, unswizzled"),
    NUMBER("warpgroup_mma", "swizzle_alignment", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD,
           "of an operand tile with the widest swizzle"),
    LIST("warpgroup_mma", "swizzles", "B", RULE_REQUIRED, "widths of the xor swizzle"),
    NUMBER("warpgroup_mma", "groups_in_flight", "groups", NEEDED, NO_FIELD, "that a wait can leave pending"),
    CYCLES("warpgroup_mma", "issue", OPEN, "between two issues"),
    CYCLES("warpgroup_mma", "tail", OPEN, "last product's end to its result"),

    FAMILY("matrix_load", "B/clk/SM"),
    MOVES("matrix_load"),
    LIST("matrix_load", "matrices", "matrices", NEEDED, "per instruction"),
    NUMBER("matrix_load", "element", "bits", NEEDED, NO_FIELD, "element size"),
    FLAG("matrix_load", "transpose", RULE_REQUIRED, "has a transposing form"),
    FLAG("matrix_load", "uniform_offset", 0,
         "adds a number that is the same for a warp to each lane's address"),

    FAMILY("matrix_store", "B/clk/SM"),
    MOVES("matrix_store"),
    LIST("matrix_store", "matrices", "matrices", NEEDED, "per instruction"),
    NUMBER("matrix_store", "element", "bits", NEEDED, NO_FIELD, "element size"),
    FLAG("matrix_store", "transpose", RULE_REQUIRED, "has a transposing form"),

    FAMILY("mbarrier", "op/clk/SM"),
    NUMBER("mbarrier", "size", "B", NEEDED, NO_FIELD, ""),
    NUMBER("mbarrier", "alignment", "B", NEEDED | RULE_POWER_OF_TWO, NO_FIELD, ""),
    NUMBER("mbarrier", "arrivals_max", "arrivals", NEEDED, NO_FIELD, "per phase"),
    NUMBER("mbarrier", "bytes_max", "B", NEEDED, NO_FIELD, "outstanding in a phase"),
    FLAG("mbarrier", "blocking_wait", RULE_REQUIRED, "a wait may suspend the thread"),

    FAMILY("register_reallocation", "op/clk/SM"),
    NUMBER("register_reallocation", "min", "registers", NEEDED, NO_FIELD, "per thread"),
    NUMBER("register_reallocation", "max", "registers", NEEDED, NO_FIELD, "per thread"),
    NUMBER("register_reallocation", "step", "registers", NEEDED, NO_FIELD, ""),

    FAMILY("cluster", "B/clk/SM"),
    FAMILY("elect", "op/clk/SM"),
    FAMILY("dependent_launch", "op/clk/SM"),

    FAMILY("lane_reduce", "op/clk/SM"),
    CHOICES("lane_reduce", "operations", "add min max and or xor", RULE_REQUIRED, ""),
    {"lane_reduce", "types", RULE_TYPES, NULL, NULL, RULE_REQUIRED, NO_FIELD, ""},

    FAMILY("cache_hint", "op/clk/SM"),
    CHOICES("cache_hint", "policies", "evict_first evict_last evict_normal evict_unchanged no_allocate",
            RULE_REQUIRED, ""),
    LIST("cache_hint", "prefetch_sizes", "B", RULE_REQUIRED, "L2 prefetch sizes on loads"),

    {"shape", "a", RULE_TYPES, NULL, NULL, RULE_REQUIRED, NO_FIELD, "types of A; every A goes with every B"},
    {"shape", "b", RULE_TYPES, NULL, NULL, RULE_REQUIRED, NO_FIELD, "types of B"},
    {"shape", "acc", RULE_TYPE, NULL, NULL, RULE_REQUIRED, NO_FIELD, "type of the accumulator"},
    NUMBER("shape", "m", "rows", NEEDED, NO_FIELD, "rows of one instruction"),
    {"shape", "n", RULE_RANGES, "columns", NULL, NEEDED, NO_FIELD, "columns of one instruction"},
    NUMBER("shape", "k", "elements", NEEDED, NO_FIELD, "depth of one instruction"),
    NUMBER("shape", "rate", "FLOP/clk/SM", OPEN, NO_FIELD, "2 per multiply-add"),
    CYCLES("shape", "latency", OPEN, "one instruction, largest n"),
    CHOICES("shape", "transpose", "a b", 0, "operands that may be M-major or N-major in shared memory"),
    NUMBER("shape", "accumulator_bits", "bits", OPEN, NO_FIELD, "significant bits kept at each accumulation"),
    NUMBER("shape", "accumulator_k", "elements", OPEN, NO_FIELD, "K summed before that rounding"),
    CHOICE("shape", "accumulator_rounding", "truncate nearest exact", OPEN, ""),
    {"shape", "widens", RULE_TYPES, NULL, NULL, 0, NO_FIELD,
     "8-bit types that threads widen to this one, in registers, where no shape takes them"},
    {"shape", "ptx", RULE_VERSION, "version", NULL, RULE_REQUIRED, NO_FIELD, "first PTX ISA that has it"},
};
const unsigned schema_n_rules = G_N_ELEMENTS(schema_rules);

const Section *schema_section(const char *name)
{
  for (unsigned i = 0; i < schema_n_sections; i++)
    if (!strcmp(schema_sections[i].name, name)) return &schema_sections[i];
  return NULL;
}

const char **schema_keys(const char *section)
{
  GPtrArray *keys = g_ptr_array_new();
  if (!strcmp(section, "families")) {
    for (unsigned i = 0; i < schema_n_sections; i++)
      if (schema_sections[i].is_family) g_ptr_array_add(keys, (void *)schema_sections[i].name);
  } else {
    for (unsigned i = 0; i < schema_n_rules; i++)
      if (!strcmp(schema_rules[i].section, section)) g_ptr_array_add(keys, (void *)schema_rules[i].key);
  }
  if (!strcmp(section, "warp_mma") || !strcmp(section, "warpgroup_mma"))
    g_ptr_array_add(keys, (void *)"shapes");
  g_ptr_array_add(keys, NULL);
  return (const char **)g_ptr_array_free(keys, FALSE);
}

char *schema_form(const Rule *rule)
{
  GString *text = g_string_new(NULL);
  static const char *const forms[] = {
      [RULE_FLAG] = "true or false",
      [RULE_TYPE] = "number type",
      [RULE_TYPES] = "number type(s)",
      [RULE_TEXT] = "text",
      [RULE_VERSION] = "version",
      [RULE_CHOICE] = "one of ",
      [RULE_CHOICES] = "list of ",
      [RULE_NUMBERS] = "list, in ",
      [RULE_RANGES] = "numbers and ranges, ",
      [RULE_NUMBER] = "",
  };
  g_string_append(text, forms[rule->kind]);
  if (rule->choices) {
    g_auto(GStrv) words = g_strsplit(rule->choices, " ", -1);
    g_autofree char *list = g_strjoinv("`, `", words);
    g_string_append_printf(text, "`%s`", list);
  } else if (rule->unit && rule->kind <= RULE_RANGES) {
    g_string_append(text, rule->unit);
  }
  return g_string_free(text, FALSE);
}
