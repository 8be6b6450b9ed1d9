package release

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The suites and the examples ask for the versions that the modules of users ask for, and for the same ones as
// each other. With a newer version of one package, all that imports it would be compiled once more, under the race
// detector. Only the comparisons of bench need newer ones: those of today.
func TestSuitesAndExamplesHaveTheVersionsOfUsers(t *testing.T) {
	t.Parallel()
	users, direct, same := map[string][]string{}, map[string]bool{}, map[string]string{}
	released := directories(t, "--released")
	for _, directory := range released {
		for _, r := range requirements(t, directory) {
			users[r.module] = append(users[r.module], r.version)
			direct[r.module] = direct[r.module] || !r.indirect
		}
	}
	for _, directory := range directories(t) {
		if slices.Contains(released, directory) || directory == "/bench" || directory == "/internal/newest" {
			continue
		}
		for _, r := range requirements(t, directory) {
			if other, known := same[r.module]; known && r.version != other {
				t.Errorf("%s asks for %s %s, another module for %s", directory, r.module, r.version, other)
			}
			same[r.module] = r.version
			if of := users[r.module]; !r.indirect && direct[r.module] && !slices.Contains(of, r.version) {
				t.Errorf("%s asks for %s %s, the modules of users for %v", directory, r.module, r.version, of)
			}
		}
	}
	if shared := slices.Collect(maps.Keys(same)); len(shared) < 50 {
		t.Errorf("suites and examples require %v only", shared)
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
