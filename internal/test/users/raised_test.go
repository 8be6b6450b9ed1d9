package users

import (
	"fmt"
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

const root = "github.com/weblimit/weblimit"

// An application that adds nethttp gets a newer release of nothing but what nethttp and the stores of the main module
// compile: what this repository has for other frameworks, and for its own tests, is no matter of its.
func TestWhatNethttpRaisesInAnOlderApplication(t *testing.T) {
	t.Parallel()
	before := older(t, "nothing")
	wantNothingRaised(t, before, older(t, ".", "nethttp", "core/redisstore"))
}

// Nor does it get a newer release of another framework by adding an adapter: only of what the adapter compiles, and of
// what its framework asks for by itself.
func TestWhatAnAdapterRaisesInAnOlderApplication(t *testing.T) {
	t.Parallel()
	const net = "golang.org/x/net" // of which these frameworks compile what had advisories in the releases that they ask for
	for adapter, frameworks := range map[string][]string{
		"chilimit":    {"github.com/go-chi/chi/v5"},
		"ginlimit":    {"github.com/gin-gonic/gin", net},
		"echolimit":   {"github.com/labstack/echo/v4"},
		"echo5limit":  {"github.com/labstack/echo/v5"},
		"fiberlimit":  {"github.com/gofiber/fiber/v2"},
		"fiber3limit": {"github.com/gofiber/fiber/v3", net},
		"grpclimit":   {"google.golang.org/grpc", net},
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			after := older(t, adapter, adapter, "core/redisstore")
			before := older(t, "nothing")
			get := []string{"get"}
			for _, f := range frameworks {
				get = append(get, f+"@"+after.versions[f])
			}
			must.Do(run(before.dir, get...))(t)
			before.versions = selected(t, before.dir)
			wantNothingRaised(t, before, after)
		})
	}
}

// application is one that had its frameworks before it had limits.
type application struct {
	dir      string
	versions map[string]string // of all modules of its build, as Go has selected them
	compiled []string          // the modules of which it compiles something for its limits
}

// older makes the application. If a module of this repository is named, by its folder, it adds packages of that.
func older(t *testing.T, module string, packages ...string) (a application) {
	t.Helper()
	a.dir = t.TempDir()
	must.OK(t, os.CopyFS(a.dir, os.DirFS(filepath.Join("testdata", "older"))))
	if len(packages) > 0 {
		a.add(t, module, packages)
	}
	tidy(t, a.dir)
	a.versions = selected(t, a.dir)
	for _, p := range packages {
		out := must.Get(run(a.dir, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", root+"/"+p))(t)
		a.compiled = append(a.compiled, strings.Fields(out)...)
	}
	return a
}

func (a application) add(t *testing.T, module string, packages []string) {
	t.Helper()
	repository := must.Get(filepath.Abs("../../.."))(t)
	mod := string(must.Get(os.ReadFile(filepath.Join(a.dir, "go.mod")))(t))
	for _, folder := range slices.Compact([]string{".", module}) {
		for _, file := range []string{"go.mod", "go.sum"} { // so that go test does not cache the result when they change
			must.Do(os.ReadFile(filepath.Join(repository, folder, file)))(t)
		}
		path := strings.TrimSuffix(root+"/"+folder, "/.")
		mod += fmt.Sprintf("\nrequire %s v0.0.0\nreplace %[1]s => %s\n", path, filepath.Join(repository, folder))
	}
	must.OK(t, os.WriteFile(filepath.Join(a.dir, "go.mod"), []byte(mod), 0o600))
	file := "package main\n"
	for _, p := range packages {
		file += fmt.Sprintf("\nimport _ %q\n", root+"/"+p)
	}
	must.OK(t, os.WriteFile(filepath.Join(a.dir, "limits.go"), []byte(file), 0o600))
}

func wantNothingRaised(t *testing.T, before, after application) {
	t.Helper()
	var raised []string
	for _, module := range slices.Sorted(maps.Keys(before.versions)) {
		was, is := before.versions[module], after.versions[module]
		if is != was && is != "" && !slices.Contains(after.compiled, module) {
			raised = append(raised, fmt.Sprintf("%s %s => %s", module, was, is))
		}
	}
	check.Slices(t, "modules that it raises, though it compiles nothing of them", raised, nil)
	if len(after.compiled) < 2 || len(before.versions) < 30 {
		t.Errorf("it compiles %v, of %d modules", after.compiled, len(before.versions))
	}
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
