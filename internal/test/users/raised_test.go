package users

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

const nethttpFile = `package main

import _ "github.com/weblimit/weblimit/nethttp"
`

// What an application gets newer releases of when it adds nethttp, although nethttp does not compile them: what else is
// in the main module asks for these. It should be nothing, and must not become more.
func TestWhatNethttpRaisesInAnOlderApplication(t *testing.T) {
	t.Parallel()
	from, work := filepath.Join("testdata", "older"), t.TempDir()
	must.OK(t, os.CopyFS(work, os.DirFS(from)))
	root := must.Get(filepath.Abs("../../.."))(t)
	tidy(t, work)
	before := selected(t, work)
	text := must.Get(os.ReadFile(filepath.Join(work, "go.mod")))(t)
	must.OK(t, os.WriteFile(filepath.Join(work, "go.mod"), append(text, "\nrequire github.com/weblimit/weblimit v0.0.0\nreplace github.com/weblimit/weblimit => "+root+"\n"...), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(work, "limits.go"), []byte(nethttpFile), 0o600))
	tidy(t, work)
	after := selected(t, work)
	compiled := must.Get(run(work, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/weblimit/weblimit/nethttp"))(t)
	var raised []string
	for _, module := range slices.Sorted(maps.Keys(before)) {
		if after[module] != before[module] && after[module] != "" && !slices.Contains(strings.Fields(compiled), module) {
			raised = append(raised, module)
		}
	}
	file := filepath.Join("testdata", "older.txt")
	if *update {
		must.OK(t, os.WriteFile(file, []byte(strings.Join(raised, "\n")+"\n"), 0o600))
	}
	want := strings.Fields(string(must.Get(os.ReadFile(file))(t)))
	check.Slices(t, "modules that adding nethttp raises (if that is meant: go test ./internal/test/users -update)", raised, want)
}

// selected returns the versions of all modules of a build that Go has selected.
func selected(t *testing.T, dir string) map[string]string {
	t.Helper()
	versions := make(map[string]string)
	for line := range strings.Lines(must.Get(run(dir, "list", "-m", "all"))(t)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			versions[fields[0]] = fields[1]
		}
	}
	return versions
}

func run(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	return string(out), err
}
