package users

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

var update = flag.Bool("update", false, "write go.mod and go.sum of the programs instead of comparing them")

// What a user of one framework has in go.mod and go.sum is, line by line, what it was before weblimit had
// adapters for others, or newer versions of what they share: each adapter is a module of its own. A change of the
// main module's requirements shows here, too.
func TestUsersOfOneFrameworkDoNotMove(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gin", "echo", "chi", "fiber", "nethttp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, work := filepath.Join("testdata", name), t.TempDir()
			must.OK(t, os.CopyFS(work, os.DirFS(from)))
			repository := must.Get(filepath.Abs("../../.."))(t)
			for _, file := range []string{"go.mod", "go.sum"} { // so that go test does not cache the result when they change
				must.Do(os.ReadFile(filepath.Join(repository, file)))(t)
				_, _ = os.ReadFile(filepath.Join(repository, name+"limit", file)) // there is none for net/http
			}
			// Their tests use the test kit, which adds nothing.
			must.OK(t, os.WriteFile(filepath.Join(work, "kit_test.go"), []byte(kitTest), 0o600))
			edit(t, filepath.Join(work, "go.mod"), " => ../../../../..", " => "+repository)
			tidy(t, work)
			edit(t, filepath.Join(work, "go.mod"), " => "+repository, " => ../../../../..")
			for _, file := range []string{"go.mod", "go.sum"} {
				got := must.Get(os.ReadFile(filepath.Join(work, file)))(t)
				want, _ := os.ReadFile(filepath.Join(from, file))
				switch {
				case bytes.Equal(got, want):
				case *update:
					check.OK(t, os.WriteFile(filepath.Join(from, file), got, 0o600))
				default:
					t.Errorf("%s of a user of %s changes. If that is meant, run go test ./internal/test/users -update.\nbefore:\n%s\nnow:\n%s", file, name, want, got)
				}
			}
		})
	}
}

const kitTest = `package main

import (
	"testing"

	"github.com/weblimit/weblimit/weblimittest"
)

func TestLimits(t *testing.T) { weblimittest.New(t) }
`

func edit(t *testing.T, file, before, after string) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	must.OK(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), before, after)), 0o600))
}

// tidy runs go mod tidy, if it can from the modules that this machine has.
func tidy(t *testing.T, dir string) {
	t.Helper()
	var out []byte
	var err error
	for _, proxy := range []string{"GOPROXY=off", "GOPROXY=" + os.Getenv("GOPROXY")} {
		tidy := exec.Command("go", "mod", "tidy")
		tidy.Dir = dir
		tidy.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", proxy)
		if out, err = tidy.CombinedOutput(); err == nil {
			return
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	t.Skipf("go mod tidy needs modules that are neither here nor to be had: %v\n%s", err, out)
}
