package file

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// isCompressed says it by a file's name.
func isCompressed(name string) bool {
	return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
}

// An unpacker reads what a compressed file holds. An offset in that is the same
// whenever it is read, but the only way there is from the beginning.
type unpacker struct {
	io.Reader
	packed *bufio.Reader
	file   *io.SectionReader // below packed
	close  func()
}

func unpack(name string, file *io.SectionReader) (*unpacker, error) {
	u := &unpacker{file: file, packed: bufio.NewReaderSize(file, block), close: func() {}}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(u.packed)
		if err != nil {
			return nil, u.locate(err)
		}
		u.Reader = z
		return u, nil
	}
	z, err := zstd.NewReader(u.packed, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, u.locate(err)
	}
	u.Reader, u.close = z, z.Close
	return u, nil
}

// Read implements io.Reader.
func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = u.locate(err)
	}
	return n, err
}

// locate says where in the compressed file an error is.
func (u *unpacker) locate(err error) error {
	read, _ := u.file.Seek(0, io.SeekCurrent) // never fails
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("decompress up to byte %d of %d: %w", read-int64(u.packed.Buffered()), u.file.Size(), err)
}

// skip reads n bytes and forgets them.
func (u *unpacker) skip(ctx context.Context, n int64) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		part, err := io.CopyN(io.Discard, u, min(n, 16*block))
		if n -= part; err == io.EOF {
			return fmt.Errorf("the text ends %d bytes before that: the file has been changed", n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
