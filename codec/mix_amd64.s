#include "textflag.h"

// Z0 holds eight words. Their steps are those of splitMix and unmix in mix.go.

// func mixEights(seeds, mixed *uint64, n int)
TEXT ·mixEights(SB), NOSPLIT, $0-24
	MOVQ seeds+0(FP), SI
	MOVQ mixed+8(FP), DI
	MOVQ n+16(FP), CX
	MOVQ $0x9e3779b97f4a7c15, AX
	VPBROADCASTQ AX, Z1
	MOVQ $0xbf58476d1ce4e5b9, AX
	VPBROADCASTQ AX, Z2
	MOVQ $0x94d049bb133111eb, AX
	VPBROADCASTQ AX, Z3
	JMP test
next:
	VPADDQ (SI), Z1, Z0
	VPSRLQ $30, Z0, Z4
	VPXORQ Z4, Z0, Z0
	VPMULLQ Z2, Z0, Z0
	VPSRLQ $27, Z0, Z4
	VPXORQ Z4, Z0, Z0
	VPMULLQ Z3, Z0, Z0
	VPSRLQ $31, Z0, Z4
	VPXORQ Z4, Z0, Z0
	VMOVDQU64 Z0, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $8, CX
test:
	CMPQ CX, $8
	JGE next
	VZEROUPPER
	RET

// func unmixEights(mixed, seeds *uint64, n int)
TEXT ·unmixEights(SB), NOSPLIT, $0-24
	MOVQ mixed+0(FP), SI
	MOVQ seeds+8(FP), DI
	MOVQ n+16(FP), CX
	MOVQ $0x9e3779b97f4a7c15, AX
	VPBROADCASTQ AX, Z1
	MOVQ $0x96de1b173f119089, AX
	VPBROADCASTQ AX, Z2
	MOVQ $0x319642b2d24d8ec3, AX
	VPBROADCASTQ AX, Z3
	JMP test
next:
	VMOVDQU64 (SI), Z0
	VPSRLQ $31, Z0, Z4
	VPSRLQ $62, Z0, Z5
	VPTERNLOGQ $0x96, Z4, Z5, Z0 // the xor of all three
	VPMULLQ Z3, Z0, Z0
	VPSRLQ $27, Z0, Z4
	VPSRLQ $54, Z0, Z5
	VPTERNLOGQ $0x96, Z4, Z5, Z0
	VPMULLQ Z2, Z0, Z0
	VPSRLQ $30, Z0, Z4
	VPSRLQ $60, Z0, Z5
	VPTERNLOGQ $0x96, Z4, Z5, Z0
	VPSUBQ Z1, Z0, Z0
	VMOVDQU64 Z0, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $8, CX
test:
	CMPQ CX, $8
	JGE next
	VZEROUPPER
	RET
