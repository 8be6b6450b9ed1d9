package release

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// today matches the modules that have the newest releases: programs, which are what people run and copy, and the
// tests of stores and adapters with these.
var today = regexp.MustCompile(`^/(cmd|examples|internal/newest)(/|$)`)

// Commands and examples have the newest releases, all of them the same: what is newest is in internal/newest.
func TestCommandsAndExamplesHaveTheNewest(t *testing.T) {
	t.Parallel()
	same := map[string]string{}
	for _, directory := range directories(t) {
		if today.MatchString(directory) {
			wantSame(t, directory, same)
		}
	}
	newest := 0
	for _, r := range requirements(t, "/internal/newest") {
		for _, directory := range directories(t, "--released") {
			for _, user := range requirements(t, directory) {
				if !today.MatchString(directory) && user.module == r.module && user.version != r.version {
					newest++
				}
			}
		}
	}
	if len(same) < 50 || newest < 10 {
		t.Errorf("commands and examples require %d modules, of which %d are newer than those of users", len(same), newest)
	}
}

// wantSame fails the test if a directory asks for another version than those before it.
func wantSame(t *testing.T, directory string, same map[string]string) {
	t.Helper()
	for _, r := range requirements(t, directory) {
		if other, known := same[r.module]; known && r.version != other {
			t.Errorf("%s asks for %s %s, another module for %s: UPDATE=1 scripts/newest", directory, r.module, r.version, other)
		}
		same[r.module] = r.version
	}
}

// The suites ask for the versions that the modules of users ask for. With a newer version of one package, all that
// imports it would be compiled once more, under the race detector. Only the comparisons of bench need newer ones:
// those of today.
func TestSuitesHaveTheVersionsOfUsers(t *testing.T) {
	t.Parallel()
	users, direct, same := map[string][]string{}, map[string]bool{}, map[string]string{}
	released := slices.DeleteFunc(directories(t, "--released"), today.MatchString)
	for _, directory := range released {
		for _, r := range requirements(t, directory) {
			users[r.module] = append(users[r.module], r.version)
			direct[r.module] = direct[r.module] || !r.indirect
		}
	}
	for _, directory := range directories(t) {
		if slices.Contains(released, directory) || directory == "/bench" || today.MatchString(directory) {
			continue
		}
		if directory == "/internal/suites/charts" || directory == "/internal/suites/models" { // Helm and the providers' libraries ask for newer ones of much, and so for those of the next release
			continue
		}
		if directory != "/internal/suites/majors" { // Fiber 3 asks for a newer fasthttp than the others are tested with
			wantSame(t, directory, same)
		}
		for _, r := range requirements(t, directory) {
			if of := users[r.module]; !r.indirect && direct[r.module] && !slices.Contains(of, r.version) {
				t.Errorf("%s asks for %s %s, the modules of users for %v", directory, r.module, r.version, of)
			}
		}
	}
	if shared := slices.Collect(maps.Keys(same)); len(shared) < 50 {
		t.Errorf("the suites require %v only", shared)
	}
}

type required struct {
	module, version string
	indirect        bool
}

var requirement = regexp.MustCompile(`(?m)^(?:require |\t)(\S+) (v\S+)( // indirect)?$`)

// requirements reads the go.mod in a directory, but for the modules of this repository, which are replaced.
func requirements(t *testing.T, directory string) (all []required) {
	t.Helper()
	for _, found := range requirement.FindAllStringSubmatch(read(t, path.Join(strings.TrimPrefix(directory, "/"), "go.mod")), -1) {
		if !strings.HasPrefix(found[1], "github.com/weblimit/weblimit") {
			all = append(all, required{found[1], found[2], found[3] != ""})
		}
	}
	return all
}
