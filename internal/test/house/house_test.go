package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// sample is a repository whose figures are counted by hand below.
func sample() fstest.MapFS {
	files := map[string]string{
		"go.mod":       "module example.com/m\n\ngo 1.25.0\n",
		"api/room.txt": "# package room: 3 exported names, struct fields not counted\ntype T struct\n",
		"room/above.go": `// Package room is a sample.
package room

import "example.com/other"

// Use needs what the others declare.
func Use(t T) int { // not counted as a comment
	/* a comment
	   of two lines */
	return t.Double() + base + other.Thing
}
`,
		"room/t.go": `package room

type T struct{ n int }

func (t T) Double() int { return 2 * t.n }

func (t T) Used() int { return Use(t) }
`,
		"room/base.go":         "package room\n\nconst base = 1\n",
		"room/ignored_test.go": "package room\n",
		"bench/ignored.go":     "package bench\n",
		"internal/seam/s.go":   "package seam\n\nvar (\n\tA, B any\n\tC    int\n)\n",
		"internal/seam/a.go":   "package seam\n\nimport \"example.com/m/room\"\n\nvar D = room.T{}.Used() + len(E)\n" + long("Long", 59),
		"internal/seam/b.go":   "package seam\n\nvar E string\n" + long("Short", 58),
		"nethttp/one.go":       copied("One"),
		"nethttp/two.go":       copied("Two"),
	}
	repository := fstest.MapFS{}
	for name, text := range files {
		repository[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return repository
}

// long is a function with so many lines between its braces, no two of which are equal.
func long(name string, lines int) string {
	var b strings.Builder
	b.WriteString("\nfunc " + name + "() {\n")
	for i := range lines {
		b.WriteString("\t_ = `" + name + strings.Repeat("x", i) + "`\n")
	}
	return b.String() + "}\n"
}

// copied has a run of seven lines that is the same for each name, and lines that are not.
func copied(name string) string {
	return "package nethttp\n\n// " + name + ` copies.
func ` + name + `() {
	a := 1
	b := 2 // of ` + name + `

	c := 3
	for {
		d := 4
	}
	e := 5
	if f := 6; f > 7 {
	}
	println("` + name + `")
}
`
}

func TestFigures(t *testing.T) {
	t.Parallel()
	tables := must.Get(figures(sample()))(t)
	want := map[string][]int{
		"the product: lines of Go":                                       {11 + 7 + 3 + 6 + 67 + 64 + 2*16},
		"the product: lines of code":                                     {5 + 4 + 2 + 5 + 64 + 62 + 2*13},
		"the product: arrows between files of a package":                 {4},
		"the product: upward arrows":                                     {1},
		"the product: exported names":                                    {3},
		"the product: functions above 60 lines":                          {1},
		"the product: copies of six lines or more":                       {1},
		"the product: lines that stand in copies":                        {14},
		"the product: variables of type any in internal/seam":            {2},
		"lines of Go: room":                                              {3, 21, 11, 4, 6, 27},
		"adapters: nethttp":                                              {2, 32, 0},
		"arrows between files of a package: room":                        {3, 3, 1},
		"arrows between files of a package: internal/seam":               {3, 1, 0},
		"functions above 60 lines: internal/seam/a.go: Long":             {61},
		"copies of six lines or more: nethttp/one.go and nethttp/two.go": {1, 7},
		"exported names: room":                                           {3},
	}
	for _, counted := range tables {
		for _, r := range counted.rows {
			name := counted.title + ": " + r.name
			if values, ok := want[name]; ok {
				check.Slices(t, name, r.values, values)
				delete(want, name)
			}
		}
	}
	for name := range want {
		t.Errorf("there is no figure %q", name)
	}
}

func TestUpward(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		targets map[string][]string
		want    int
	}{
		"nothing":                 {nil, 0},
		"a chain":                 {map[string][]string{"c": {"b"}, "b": {"a"}, "a": nil}, 0},
		"a circle":                {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}}, 1},
		"two that use each other": {map[string][]string{"a": {"b"}, "b": {"a"}}, 1},
		"two circles that share an arrow": {map[string][]string{
			"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"a"},
		}, 1},
		"all use each other": {map[string][]string{
			"a": {"b", "c", "d"}, "b": {"a", "c", "d"}, "c": {"a", "b", "d"}, "d": {"a", "b", "c"},
		}, 6},
	} {
		check.Equal(t, name, upward(c.targets), c.want)
	}
}

func TestShowsBeforeAndAfter(t *testing.T) {
	t.Parallel()
	before := []table{{"lines", []string{"files", "lines"}, []row{{"core", []int{2, 70}}, {"gone", []int{1, 5}}}}}
	after := []table{{"lines", []string{"files", "lines"}, []row{{"core", []int{2, 60}}, {"new", []int{1, 9}}}}}
	var b strings.Builder
	must.OK(t, show(&b, before, after))
	check.Equal(t, "the table", b.String(), `
  lines  files  lines
  core       2  70→60
  new      0→1    0→9
  gone     1→0    5→0
`)
}

// What is not committed is not there, and what has been changed is as it was.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) { must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	git := func(args ...string) {
		out, err := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	write("a.go", "package a\n")
	git("add", ".")
	git("commit", "-qm", "one")
	write("a.go", "package b\n")
	write("c.go", "package c\n")
	files := must.Get(commit("HEAD"))(t)
	check.Equal(t, "a.go", string(must.Get(fs.ReadFile(files, "a.go"))(t)), "package a\n")
	_, err := fs.Stat(files, "c.go")
	check.Is(t, "c.go", err, fs.ErrNotExist)
	_, err = commit("nothing")
	check.Fails(t, "no commit", err, "git archive nothing")
}
