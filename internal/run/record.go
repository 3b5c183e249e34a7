package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// version is the newest version of the record that is read, and the one of a flat
// run's: an older program would look for that one's checkpoints elsewhere.
const version = 2

// errTorn says that a record isn't what was written.
var errTorn = errors.New("damaged record")

// A place says which version of which run's record a file is: its name.
type place struct {
	order   uint64 // of the runs, as they began
	id      string
	version uint64
}

func (p place) String() string { return fmt.Sprintf("%08d-%s.%d", p.order, p.id, p.version) }

// parsePlace reads what String writes, and reports whether it is that.
func parsePlace(name string) (p place, ok bool) {
	order, rest, _ := strings.Cut(name, "-")
	id, version, _ := strings.Cut(rest, ".")
	p.order, _ = strconv.ParseUint(order, 10, 64)
	p.version, _ = strconv.ParseUint(version, 10, 64)
	p.id = id
	return p, validID(id) && p.String() == name
}

func validID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

// encode returns the content of a record: a line that says what it is, a line of
// JSON, and a line with the checksum of these.
func encode(r Run) ([]byte, error) {
	fields, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	as := 1
	if r.Flat {
		as = version
	}
	content := fmt.Appendf(nil, "weir run %d\n%s\n", as, fields)
	return fmt.Appendf(content, "crc32c %08x\n", checksum(content)), nil
}

func checksum(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

func decode(content []byte) (r Run, err error) {
	end := max(0, len(content)-len("crc32c 00000000\n"))
	body, sum := content[:end], content[end:]
	if string(sum) != fmt.Sprintf("crc32c %08x\n", checksum(body)) {
		return r, fmt.Errorf("%w: its checksum is wrong", errTorn)
	}
	head, fields, _ := bytes.Cut(body, []byte("\n"))
	var written int
	if _, err := fmt.Sscanf(string(head), "weir run %d", &written); err != nil {
		return r, fmt.Errorf("%w: it begins with %q", errTorn, head)
	}
	if written > version {
		return r, fmt.Errorf("written by version %d, this program reads up to %d", written, version)
	}
	if err := json.Unmarshal(fields, &r); err != nil {
		return r, fmt.Errorf("%w: %w", errTorn, err)
	}
	return r, nil
}
