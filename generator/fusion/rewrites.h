/* Rewrites: what fusion is a list of (pipeline.c). Each is a file, whose head says what it does and when.
 *
 * One that runs does so over the whole graph. One that visits is called for each place of a list of nodes, those beside
 * it in the pipeline too, node by node: fuser->live up to FUSION_PLACED, then fuser->nodes. */
#pragma once
#include "generator/fusion/fusion.h"

/* Over fuser->live. */
void fusion_expand_zero_points(Fuser *fuser);
void fusion_split_wide(Fuser *fuser);
void fusion_take_scales(Fuser *fuser);
void fusion_merge_equal(Fuser *fuser);
void fusion_slice_gathers(Fuser *fuser);
void fusion_late_gathers(Fuser *fuser);
void fusion_sum_products(Fuser *fuser);
void fusion_stack_products(Fuser *fuser);
void fusion_read_narrow(Fuser *fuser);
void fusion_read_forms(Fuser *fuser);
void fusion_open_rows(Fuser *fuser);
void fusion_repeat_constants(Fuser *fuser);
void fusion_read_functions(Fuser *fuser);
void fusion_read_rotation(Fuser *fuser);
void fusion_part_rows(Fuser *fuser);
void fusion_halve_rows(Fuser *fuser);
void fusion_group_heads(Fuser *fuser);
/* true: another node, or another view, stands at the place now. */
bool fusion_part_products(Fuser *fuser, unsigned place);
bool fusion_make_views(Fuser *fuser, unsigned place);
void fusion_drop_unread(Fuser *fuser);
void fusion_fuse_attention(Fuser *fuser);
bool fusion_space_rows(Fuser *fuser, unsigned place);
bool fusion_copy_operands(Fuser *fuser, unsigned place);
bool fusion_align_operands(Fuser *fuser, unsigned place);
/* Over fuser->nodes and their groups. */
bool fusion_open_attention(Fuser *fuser, unsigned place);
bool fusion_join_producers(Fuser *fuser, unsigned place);
bool fusion_open_group(Fuser *fuser, unsigned place);
bool fusion_take_prologue(Fuser *fuser, unsigned place);
bool fusion_close_branches(Fuser *fuser, unsigned place);
void fusion_break_circles(Fuser *fuser);
void fusion_pair_products(Fuser *fuser);
void fusion_reduce_products(Fuser *fuser);
void fusion_join_rows(Fuser *fuser);
void fusion_sum_rows(Fuser *fuser);
void fusion_join_siblings(Fuser *fuser);
void fusion_stack_programs(Fuser *fuser);
void fusion_join_copies(Fuser *fuser);
void fusion_read_through(Fuser *fuser);
void fusion_join_appends(Fuser *fuser);
void fusion_join_facts(Fuser *fuser);
void fusion_divide_programs(Fuser *fuser);
void fusion_walk_times(Fuser *fuser);
