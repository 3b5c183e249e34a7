#include "textflag.h"

// func prefetch(at *[Together]unsafe.Pointer, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
	B    test
next:
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	SUB  $1, R1, R1
test:
	CMP  $0, R1
	BGT  next
	RET
