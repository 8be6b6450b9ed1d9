package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// Nothing is left out: each package with tests runs with the race detector or is known to need none, those that measure run
// without it, too, and whatever stands on a framework, or on a client of a database, is tested with both ends of the range of
// releases.
func TestThePlanHasEveryPackageWithTests(t *testing.T) {
	t.Chdir("../../..")
	units := must.Get(plan(t.Context(), regexp.MustCompile("")))(t)
	root := must.Get(os.Getwd())(t)
	planned, withNewest := make(map[string][]string), []string{}
	for _, u := range units {
		for _, p := range u.packages {
			room := must.Get(filepath.Rel(root, p.Dir))(t)
			planned[room] = append(planned[room], u.name()+u.tests)
			if u.dir == newest {
				withNewest = append(withNewest, room)
			}
		}
	}
	var ofReleases []string
	for _, room := range roomsWithTests(t) {
		if n := len(planned[room]); n == 0 || n > 2 {
			t.Errorf("%s is planned %d times: %v", room, n, planned[room])
		}
		adapter := room == "nethttp" || strings.HasSuffix(room, "limit") && !strings.Contains(room, "/") && room != "llmlimit"
		if adapter || room == "core/redisstore" || room == "core/pgstore" || room == "metrics/otel" || room == "metrics/prometheus" {
			ofReleases = append(ofReleases, room)
		}
	}
	for _, room := range []string{"core", "ginlimit", "grpclimit"} {
		if len(planned[room]) != 2 {
			t.Errorf("%s, which measures, is planned for %v", room, planned[room])
		}
	}
	if !slices.ContainsFunc(units, unit.drives) {
		t.Error("no package of tables is planned")
	}
	slices.Sort(withNewest)
	slices.Sort(ofReleases)
	check.Slices(t, "packages whose tests run with the newest releases", withNewest, ofReleases)
	if len(ofReleases) < 12 {
		t.Errorf("only %v are known as stores and adapters", ofReleases)
	}
}

// skipsRaces is in a test that asserts nothing, or less, under the race detector.
var skipsRaces = regexp.MustCompile(`race\.Skip\(|!race\.Enabled|race\.Enabled[^\n]*\{\n\t+t\.Skip`)

// What a test leaves out under the race detector is tested without it: nothing else would notice that it never ran.
func TestWhatSkipsUnderTheRaceDetectorRunsWithoutIt(t *testing.T) {
	t.Chdir("../../..")
	found := 0
	for _, room := range roomsWithTests(t) {
		for _, file := range must.Get(filepath.Glob(room + "/*_test.go"))(t) {
			for _, test := range strings.Split(string(must.Get(os.ReadFile(file))(t)), "\nfunc ")[1:] {
				name, body, _ := strings.Cut(test, "(")
				if !strings.HasPrefix(name, "Test") || !skipsRaces.MatchString(body) {
					continue
				}
				if found++; !measuredTest.MatchString("func "+name+"(") && !tables.MatchString("/"+room) {
					t.Errorf("%s: %s asserts less under the race detector, and make test has no run without it: see measured in plan.go", file, name)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d tests are known that assert less under the race detector", found)
	}
}

// roomsWithTests returns the folders of all modules that have files of tests.
func roomsWithTests(t *testing.T) (rooms []string) {
	t.Helper()
	must.OK(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (name[0] == '.' || name == "testdata" || name == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_test.go") && !slices.Contains(rooms, filepath.Dir(path)):
			rooms = append(rooms, filepath.Dir(path))
		}
		return nil
	}))
	return rooms
}
