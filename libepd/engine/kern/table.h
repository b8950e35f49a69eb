/* table.h - all that one instruction set offers, compiled by its isa_*.c. */
#ifndef EPD_ENGINE_KERN_TABLE_H
#define EPD_ENGINE_KERN_TABLE_H

#include "engine/kern/norm.h"
#include "engine/kern/score.h"
#include "engine/kern/soft.h"
#include "engine/kern/tile.h"
#include "engine/kern/vocab.h"
#include "engine/kern/weigh.h"
#include "engine/kern/wide.h"

#define KERN_TABLE(isa) { \
	.name = isa, .mr = MR, .nr = NR, .qr = QR, \
	.tile = kern_tile, .pack = kern_pack, KERN_WIDE \
	.rmsnorm = kern_rmsnorm, .layernorm = kern_layernorm, \
	.exp = kern_exp, .tanh = kern_tanh, .erf = kern_erf, \
	.silu = kern_silu, .quick_gelu = kern_quick_gelu, \
	.gelu_tanh = kern_gelu_tanh, .gelu_erf = kern_gelu_erf, \
	.add = kern_add, .rope = kern_rope, \
	.top = kern_top, .sumexp = kern_sumexp, .finite = kern_finite, \
	.score = kern_score, .soft = kern_soft, .weigh = kern_weigh, \
	.merge = kern_merge, .finish = kern_finish, \
}

#endif
