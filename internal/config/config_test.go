package config

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata and docs/configuration.md with what the code says")

// TestStories plays testdata/*.txt. A story is a file's text, then parts that begin with a line "--- code", "--- -D" (both of
// key=value) and "--- says": the mistakes, or else the notes and every setting that has been given.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no stories", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var played strings.Builder
		introduction, stories, _ := strings.Cut(string(data), "=== ")
		played.WriteString(introduction)
		for story := range strings.SplitSeq(stories, "\n=== ") {
			given, want, _ := strings.Cut(story, "--- says\n")
			title, _, _ := strings.Cut(story, "\n")
			got := tell(given)
			fmt.Fprintf(&played, "=== %s--- says\n%s\n", given, got)
			if strings.TrimSpace(got) != strings.TrimSpace(want) && !*rewrite {
				t.Errorf("%s: %s\ngot:\n%swant:\n%s", path, title, got, want)
			}
		}
		if *rewrite {
			if err := os.WriteFile(path, []byte(strings.TrimSpace(played.String())+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func tell(given string) string {
	_, given, _ = strings.Cut(given, "\n")
	parts := strings.Split(given, "--- ")
	layers := map[string]Layer{"file": parse("c.yaml", []byte(parts[0]))}
	for _, part := range parts[1:] {
		name, body, _ := strings.Cut(part, "\n")
		layer := Assignments(strings.Split(strings.TrimSpace(body), "\n"))
		for i := range layer.settings {
			layer.settings[i].origin = strings.Replace(layer.settings[i].origin, "-D", name, 1)
		}
		layers[name] = layer
	}
	cfg, err := Merge(layers["file"], layers["code"], layers["-D"])
	if err != nil {
		return err.Error() + "\n"
	}
	var said strings.Builder
	for _, note := range cfg.Notes() {
		fmt.Fprintln(&said, "note:", note)
	}
	for _, s := range cfg.Effective() {
		if s.Origin != "default" {
			fmt.Fprintf(&said, "%s = %s (%s)\n", s.Key, s.Value, s.Origin)
		}
	}
	return said.String()
}

func merged(t *testing.T, assignments ...string) *Config {
	t.Helper()
	cfg, err := Merge(Assignments(assignments))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestEverySettingHasItsDefault(t *testing.T) {
	for d := range declarations() {
		if _, ok := d.kind.read(d.otherwise); d.otherwise != "" && !ok {
			t.Errorf("%s: the default %q is not %v", d.key, d.otherwise, d.kind)
		}
		if d.use == refused && d.otherwise == "" {
			t.Errorf("%s: refused, and no value works", d.key)
		}
	}
	cfg := merged(t)
	if got := Get(cfg, CheckpointInterval); got != 0 {
		t.Errorf("interval %v without a setting, want none", got)
	}
	if got := Get(cfg, CheckpointTimeout); got != 10*time.Minute {
		t.Errorf("timeout %v", got)
	}
	if got := Get(cfg, InlineThreshold); got != 20<<10 {
		t.Errorf("inline threshold %v", got)
	}
	if got := Get(cfg, ExponentialDelayAttempts); got != math.MaxInt {
		t.Errorf("attempts %v", got)
	}
	if got := Get(cfg, MaxParallelism); got != 0 {
		t.Errorf("max parallelism %v, want 0 for none", got)
	}
}

func TestRestartStrategyFollowsCheckpointing(t *testing.T) {
	for _, c := range []struct {
		assignments []string
		want        string
	}{
		{nil, "none"},
		{[]string{"execution.checkpointing.interval=-1"}, "none"},
		{[]string{"execution.checkpointing.interval=1s"}, "exponential-delay"},
		{[]string{"execution.checkpointing.interval=1s", "restart-strategy=off"}, "none"},
		{[]string{"restart-strategy.type=fixeddelay"}, "fixed-delay"},
	} {
		if got := Get(merged(t, c.assignments...), RestartStrategy); got != c.want {
			t.Errorf("%v: %s, want %s", c.assignments, got, c.want)
		}
	}
}

func TestFailOnCheckpointingErrorsSaysHowManyAreTolerated(t *testing.T) {
	const fail, number = "execution.checkpointing.fail-on-checkpointing-errors=", "execution.checkpointing.tolerable-failed-checkpoints=7"
	for _, c := range []struct {
		assignments []string
		want        int
	}{
		{nil, 0},
		{[]string{fail + "true"}, 0},
		{[]string{fail + "false"}, math.MaxInt},
		{[]string{fail + "true", number}, 7},
		{[]string{fail + "false", number}, 7},
	} {
		if got := Get(merged(t, c.assignments...), TolerableFailedCheckpoints); got != c.want {
			t.Errorf("%v: %d, want %d", c.assignments, got, c.want)
		}
	}
}

func TestOnlyTheFileThatNobodyNamedMayBeAbsent(t *testing.T) {
	t.Setenv("WEIR_CONF_DIR", "")
	if _, err := Merge(File("")); err != nil {
		t.Errorf("no directory: %v", err)
	}
	directory := t.TempDir()
	t.Setenv("WEIR_CONF_DIR", directory)
	if _, err := Merge(File("")); err != nil {
		t.Errorf("no file in the directory: %v", err)
	}
	path := filepath.Join(directory, "config.yaml")
	if _, err := Merge(File(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was named, and is absent: %v", err)
	}
	if err := os.WriteFile(path, []byte("pipeline.name: a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, layer := range []Layer{File(""), File(path)} {
		cfg, err := Merge(layer)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := Describe(cfg, JobName), fmt.Sprintf(`pipeline.name = "a" (%s:1)`, path); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestFlinksOwnFilesLoad(t *testing.T) {
	for _, name := range []string{"config.yaml", "flink-conf.yaml"} {
		cfg, err := Merge(File(filepath.Join("testdata", name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := Get(cfg, CheckpointDir); !strings.HasSuffix(got, "/flink-checkpoints") {
			t.Errorf("%s: checkpoint directory %q", name, got)
		}
		notes := strings.Join(cfg.Notes(), "\n")
		for _, key := range []string{"jobmanager.rpc.address", "jobmanager.bind-host", "taskmanager.host", "taskmanager.memory.process.size"} {
			if !strings.Contains(notes, key) {
				t.Errorf("%s: no note about %s in\n%s", name, key, notes)
			}
		}
	}
}

func TestSecretsStayOutOfMessages(t *testing.T) {
	_, err := Merge(Assignments([]string{"s3.secret-key=hush", "metrics.reporter.x.password=hush", "parallelism.default=0"}))
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
	if notes := fmt.Sprint(merged(t, "metrics.reporter.x.password=hush").Notes()); strings.Contains(notes, "hush") {
		t.Error(notes)
	}
	for d := range declarations() {
		if isSecret(d.key) {
			t.Errorf("%s: its mistakes won't show its value", d.key)
		}
	}
}

func TestMistakesAreBounded(t *testing.T) {
	for _, form := range []string{"k%d: v\n", "%d: not a key\n"} {
		var nonsense strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&nonsense, form, i)
		}
		_, err := Merge(parse("c.yaml", []byte(nonsense.String())))
		if lines := strings.Count(err.Error(), "\n") + 1; lines != maxProblems+1 {
			t.Errorf("%q: %d lines of mistakes", form, lines)
		}
	}
}

func TestFilesFromWindowsRead(t *testing.T) {
	cfg, err := Merge(parse("c.yaml", []byte("\ufeffpipeline:\r\n  name: a\r\nexecution.checkpointing.dir: file:///c\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	if name, dir := Get(cfg, JobName), Get(cfg, CheckpointDir); name != "a" || dir != "file:///c" {
		t.Errorf("%q, %q", name, dir)
	}
}

// FuzzFile feeds anything to the file reader: an error or a configuration, never a panic, and soon.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"execution:\n  checkpointing:\n    interval: 10 s # often\n",
		"a: &a [x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n",
		"<<: {pipeline.name: a}\n", "? [a]\n: b\n", "!!binary a: b\n", "a: !!int 3\n", "a: |\n  b\n", "- a\n", "--- \n--- \n",
		"\"\": \"\"\n", "a:\r\n  b: c\r\n", "\ta: b\n", "a: [", "a: {b: [c, {d: e}]}\n", "\xff: a\n", "\xef\xbb\xbfa: b\n", "a:\n\n  b", "%YAML 9\n---\na: b\n",
		strings.Repeat("[", 1000), strings.Repeat("- ", 1000) + "a", strings.Repeat("{a: ", 1000), "a: " + strings.Repeat("x", 1<<17),
		strings.Repeat("a.", 10000) + "a: b\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Merge(parse("c.yaml", data))
		if (cfg == nil) != (err != nil) {
			t.Fatalf("both or neither: %v, %v", cfg, err)
		}
	})
}

func TestFilesThatAreNoConfigurationAreNotParsed(t *testing.T) {
	for want, data := range map[string]string{
		"c.yaml: too large for a configuration: more than 1 mb":                  strings.Repeat("# comment\n", maxFile/10+1),
		"c.yaml: too large for a configuration: more than 20000 words and marks": strings.Repeat("[\n", maxTokens+1),
		"c.yaml:2: a line of more than 64 kb":                                    "\na: " + strings.Repeat("x", maxLine) + "\n",
		"c.yaml:2: not UTF-8":                                                    "a: b\n\xff: c\n",
	} {
		if _, err := Merge(parse("c.yaml", []byte(data))); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
