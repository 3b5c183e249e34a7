package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const page = "../../docs/configuration.md"

// TestPageIsCurrent holds docs/configuration.md to the declarations; run it with -rewrite after changing them.
func TestPageIsCurrent(t *testing.T) {
	want := markdown()
	if *rewrite {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/configuration.md is not what the declarations say; go test ./internal/config -rewrite writes it anew")
	}
}

const introduction = `# Configuration

*Written from the declarations in internal/config; change them, not this page.*

Settings come from a YAML file, then the job's code, then ` + "`-D key=value`" + `; what comes later wins. The file is the one that
` + "`-config`" + ` names, else ` + "`config.yaml`" + ` in the directory that the environment variable ` + "`WEIR_CONF_DIR`" + ` names. Its keys may be nested
or flat. Anchors, aliases and tags are not allowed. Names are Flink's; older names work, and the log says which they were. In code, the fields of
` + "`weir.Job` and `weir.Checkpoints`" + ` are such settings, and ` + "`Job.Config`" + ` takes any by its key.

- A **duration** is ` + "`10 min`, `500 ms`, `1 h`, `1 d`, `1m30s`" + `; a bare number is in milliseconds, and ` + "`m`" + ` is a minute.
- A **size** is ` + "`20 kb`, `64 mb`, `1 gb`" + `, in powers of 1024; a bare number is in bytes.
- A **list** is a YAML list, or has ` + "`;`" + ` between its items.

An unknown key, a value out of its range, a key given twice in one place and settings that can't be combined are errors, and all of them are reported at once.

Whether a setting **acts**: *yes*; *not yet* (accepted, the log says so, and meanwhile the default holds); *default only* (any other value is
refused, since going on without it would break what one relies on); *no* (Flink's, without a meaning here, accepted so that its files load).
`

func markdown() string {
	var page strings.Builder
	page.WriteString(introduction)
	for _, section := range sections {
		fmt.Fprintf(&page, "\n## %s\n\n| key | value | default | acts | meaning |\n|---|---|---|---|---|\n", section.title)
		for _, d := range section.declarations {
			fmt.Fprintf(&page, "| `%s`%s | %s | %s | %s | %s |\n", d.key, older(d.old), d.kind, code(d.otherwise), actsText[d.use], d.meaning)
		}
	}
	return page.String()
}

var actsText = map[use]string{acts: "yes", later: "not yet", refused: "default only", nothing: "no"}

func older(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "<br>older: `" + strings.Join(names, "`, `") + "`"
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
