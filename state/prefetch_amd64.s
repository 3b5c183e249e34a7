#include "textflag.h"

// func prefetch(at *[Together]unsafe.Pointer, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
	JMP  test
next:
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	ADDQ $8, SI
	DECQ CX
test:
	TESTQ CX, CX
	JGT  next
	RET
