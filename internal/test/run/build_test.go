package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// What the compiler says goes to the package it is about.
func TestPackagesThatDoNotBuild(t *testing.T) {
	t.Parallel()
	u := unit{dir: ".", race: true}
	packages := []listed{{ImportPath: module + "/core"}, {ImportPath: module + "/keyfuncs"}, {ImportPath: module + "/nethttp"}}
	broken := u.notBuilt(packages, `# github.com/weblimit/weblimit/keyfuncs_test [github.com/weblimit/weblimit/keyfuncs.test]
keyfuncs/a_test.go:3:1: syntax error
# github.com/weblimit/weblimit/core
core/limit.go:7: undefined: x
`, errors.New("exit status 1"))
	var stories strings.Builder
	for _, o := range broken {
		stories.WriteString(o.story())
	}
	check.Equal(t, "stories", stories.String(), `
FAIL core
    core/limit.go:7: undefined: x
  again: CI=true go test -race ./core

FAIL keyfuncs
    keyfuncs/a_test.go:3:1: syntax error
  again: CI=true go test -race ./keyfuncs
`)
}

// Programs of one directory have different names.
func TestBatchesHaveNoTwoProgramsOfOneName(t *testing.T) {
	t.Parallel()
	var u unit
	for _, p := range []string{"a/chi", "b/chi", "a/gin", "c/chi", "b/gin"} {
		u.packages = append(u.packages, listed{ImportPath: p})
	}
	var got []string
	for _, batch := range u.batches() {
		var names []string
		for _, p := range batch {
			names = append(names, p.ImportPath)
		}
		got = append(got, strings.Join(names, " "))
	}
	check.Equal(t, "batches", strings.Join(got, ", "), "a/chi a/gin, b/chi b/gin, c/chi")
}

// Nothing is left out: each package with tests runs with the race detector or is known to need none, and those
// that measure run without it, too.
func TestThePlanHasEveryPackageWithTests(t *testing.T) {
	t.Chdir("../../..")
	units := must.Get(plan(t.Context(), regexp.MustCompile("")))(t)
	dirs := must.Get(modules(t.Context()))(t)
	planned := make(map[string][]string)
	for _, u := range units {
		for _, p := range u.packages {
			planned[p.ImportPath] = append(planned[p.ImportPath], u.name()+u.tests)
		}
	}
	for _, dir := range dirs {
		for _, p := range must.Get(list(t.Context(), dir))(t) {
			if n := len(planned[p.ImportPath]); len(p.testFiles()) > 0 && n == 0 || n > 2 {
				t.Errorf("%s is planned %d times: %v", p.ImportPath, n, planned[p.ImportPath])
			}
		}
	}
	for _, p := range []string{module + "/core", module + "/ginlimit", module + "/grpclimit"} {
		if len(planned[p]) != 2 {
			t.Errorf("%s, which measures, is planned for %v", p, planned[p])
		}
	}
	if !slices.ContainsFunc(units, unit.drives) {
		t.Error("no package of tables is planned")
	}
}

// Whatever stands on a framework, or on a client of a database, is tested with both ends of the range of releases.
func TestStoresAndAdaptersRunWithTheNewest(t *testing.T) {
	t.Chdir("../../..")
	var want, got []string
	for _, dir := range must.Get(modules(t.Context()))(t) {
		for _, p := range must.Get(list(t.Context(), dir))(t) {
			room := strings.TrimPrefix(p.ImportPath, module+"/")
			adapter := room == "nethttp" || strings.HasSuffix(room, "limit") && !strings.Contains(room, "/") && room != "llmlimit"
			if adapter || room == "core/redisstore" || room == "core/pgstore" || room == "metrics/otel" || room == "metrics/prometheus" {
				want = append(want, p.ImportPath)
			}
		}
	}
	for _, u := range must.Get(plan(t.Context(), regexp.MustCompile("")))(t) {
		if u.dir == newest {
			for _, p := range u.packages {
				got = append(got, p.ImportPath)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	check.Slices(t, "packages whose tests run with the newest releases", got, want)
	if len(want) < 12 {
		t.Errorf("only %v are known as stores and adapters", want)
	}
}
