//go:build !(linux && (amd64 || arm64 || riscv64 || loong64))

package filesystem

func renameNoReplace(from, to string) error { return linkAndRemove(from, to) }
