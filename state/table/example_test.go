package table_test

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/weirstream/weir/state/table"
)

// The file that docs/format.md takes apart.
func ExampleWriter() {
	var file bytes.Buffer
	w := table.NewWriter(&file, map[string]string{"codec": "weir/1"})
	w.Add([]byte("bar"), []byte("1"))
	w.Add([]byte("barrier"), []byte("22"))
	w.Delete([]byte("batch"))
	if err := w.Finish(); err != nil {
		fmt.Println(err)
	}
	fmt.Print(hex.Dump(file.Bytes()))
	// Output:
	// 00000000  00 03 02 62 61 72 31 03  04 04 72 69 65 72 32 32  |...bar1...rier22|
	// 00000010  02 03 01 74 63 68 00 00  00 00 01 00 00 00 5b b7  |...tch........[.|
	// 00000020  95 a2 00 05 0c 63 6f 64  65 63 77 65 69 72 2f 31  |.....codecweir/1|
	// 00000030  00 00 00 00 01 00 00 00  b0 e7 7e ea 00 05 02 62  |..........~....b|
	// 00000040  61 74 63 68 22 00 00 00  00 01 00 00 00 2c 58 32  |atch"........,X2|
	// 00000050  1b 03 00 00 00 00 00 00  00 01 00 00 00 00 00 00  |................|
	// 00000060  00 22 00 00 00 00 00 00  00 3c 00 00 00 00 00 00  |.".......<......|
	// 00000070  00 01 00 00 00 e2 0a 6c  2b 77 65 69 72 2e 74 62  |.......l+weir.tb|
	// 00000080  6c                                                |l|
}
