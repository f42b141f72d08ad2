/* The words of PTX: which opcodes and modifiers there are, whether the simulator runs them or not. So that
 * text that is no PTX is told from PTX that is not supported. From the PTX ISA, version 9.0. */
#include "simulator/ptx.h"
#include <stdlib.h>
#include <string.h>

static const char opcodes[] =
    " abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt"
    " brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a"
    " elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix ldu lg2 lop3 mad"
    " mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul mul24 multimem nanosleep neg not"
    " or pmevent popc prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf"
    " shfl shl shr sin slct sqrt st stackrestore stacksave stmatrix sub subc suld suq sured sust szext"
    " tanh tcgen05 tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2"
    " vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma"
    " wmma xor"
    " ";

/* Modifiers that are no types, without the groups that is_family() knows. */
static const char modifiers[] =
    " 16dp128b 16dp256b 16dp32bx2 16dp64b 1d 2d 2dms 32dp32b 3d 4d 4x256b 5d L1 L2 NaN a a1d a2d a2dms a3d"
    " abs acq_rel acquire acquire::sync_restrict acube add addr_mode_0 addr_mode_1 addr_mode_2 address"
    " addresses alias aligned all alloc allocate_on_miss and any approx arith array_size arrive"
    " arrive_drop ashift async async::generic atom b b1024 b4e b6x16_p32 b8x16 ballot base bfly block16"
    " block32 block_scale box_dim bulk bulk::cluster bulk_group c ca cas cc cg channel_data_type"
    " channel_order clamp cluster cluster_dim col collector::a::discard collector::a::fill"
    " collector::a::lastuse collector::a::use commit commit_group complete_tx const cos cp cp_fenceproxy"
    " cp_mask cs cta cube cv cvt d dealloc dec dec_inc depth down ecl ecr element_stride elemtype enter "
    "entry eq equ exch"
    " expect_tx f4e fence fill_mode filter_mode finite force_unnormalized_coords fractional ftz full func"
    " g ge generic get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z geu gl global"
    " global::acquire global_address global_dim global_stride gpu grad gt gtu height hi hs idx ignore_oob"
    " im2col im2col::w im2col::w::128 im2col_no_offs inc infinite init interleave_layout inval is_canceled"
    " kind l launch_dependents ld ld_reduce le leu level lo load local ls lt ltu lu mask max mbarrier"
    " mbarrier_init memory_layout min mma mma_async mmio multicast::cluster mxf4 mxf4nvf4 mxf8f6f4 nan nc"
    " ne neu noComplete noftz noinc normal normalized_coords notanumber num num_mip_levels"
    " num_mipmap_levels num_samples number oc op_restrict or ordered_metadata p pack pack::16b param"
    " parity pending_count po pop popc prefetch proxy query_cancel query_cta_id r range rank rc16 rc4 rc8"
    " read red reduce relaxed release relinquish_alloc_permit relu replace rm rmi rn rna rni row rp rpi rs"
    " rz rzi s2 s4 same sat satfinite sc scale_vec::1X scale_vec::2X scale_vec::4X shared shift shiftamt"
    " shr15 shr7 sin sp sp::ordered_metadata spformat st store subnormal surfref swizzle_atomicity"
    " swizzle_mode sync sync_restrict sys tensor tensormap test_wait texref tile tile::gather4"
    " tile::scatter4 to trans trap trunc try_cancel try_wait u2 u4 uni unified unordered unpack::16b up v2 v4"
    " v8 vec volatile wait wait_all wait_group warp warpx2::01_23 warpx2::02_13 warpx4 wb weak wide width"
    " wrap write ws wt x xor xorsign xorsign_abs zero"
    " ";

static const char families[] =
    "L1::evict_ L1::no_allocate L2:: acc:: ashift async:: b4 b6 collector:: cp_mask cta_group:: e2m e3m "
    "ext:: f6 f8 fence:: get_first_ctaid im2col kind:: ld:: level:: mbarrier:: multicast:: op_restrict:: "
    "param:: proxy:: scale_vec:: scaled:: shared:: st:: sync_restrict:: tensormap:: tile:: ue wait:: "
    "warpx";

/* Groups that are told by their beginning: L1::no_allocate, mbarrier::complete_tx::bytes, m64n128k16, x4. */
static bool is_family(const char *word)
{
  g_auto(GStrv) prefixes = g_strsplit(families, " ", -1);
  for (unsigned i = 0; prefixes[i]; i++)
    if (g_str_has_prefix(word, prefixes[i])) return true;
  unsigned m, n, k;
  int end = 0;
  if (sscanf(word, "m%un%uk%u%n", &m, &n, &k, &end) == 3 && end && !word[end]) return true;
  end = 0;
  if (sscanf(word, "m%un%u%n", &m, &n, &end) == 2 && end && !word[end]) return true;
  end = 0;
  return sscanf(word, "x%u%n", &n, &end) == 1 && end && !word[end];
}

static bool is_listed(const char *word, const char *list)
{
  g_autofree char *spaced = g_strdup_printf(" %s ", word);
  return strstr(list, spaced) != NULL;
}

bool ptx_is_opcode(const char *word)
{
  return is_listed(word, opcodes);
}

bool ptx_is_modifier(const char *word)
{
  return ptx_type_parse(word) != TYPE_NONE || is_family(word) || is_listed(word, modifiers);
}
