//go:build !(amd64 || arm64 || loong64 || mips64le || ppc64le || riscv64 || wasm)

package codec

// Integers are encoded as they lie in the memory of the machines above: of 64
// bits and little-endian. On another one the bytes would mean something else.
var _ = thisMachineIsNot64BitLittleEndian
