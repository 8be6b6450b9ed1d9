package release

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var requirement = regexp.MustCompile(`(?m)^(?:require |\t)(\S+) (v\S+)(?: // indirect)?$`)

// Modules that nobody requires have the same versions of what they share, so that it is compiled once for all of
// them. After an update of one, bring its versions to the others.
func TestModulesThatNobodyRequiresAgreeOnVersions(t *testing.T) {
	t.Parallel()
	released := directories(t, "--released")
	type use struct{ version, by string }
	first := map[string]use{}
	shared := 0
	for _, directory := range directories(t) {
		if slices.Contains(released, directory) {
			continue
		}
		for _, found := range requirement.FindAllStringSubmatch(read(t, path.Join(directory[1:], "go.mod")), -1) {
			module, version := found[1], found[2]
			if strings.HasPrefix(module, "github.com/weblimit/weblimit") { // replaced
				continue
			}
			other, known := first[module]
			switch {
			case !known:
				first[module] = use{version, directory}
			case other.version != version:
				t.Errorf("%s: %s asks for %s, %s for %s", module, other.by, other.version, directory, version)
			default:
				shared++
			}
		}
	}
	if shared < 50 {
		t.Errorf("the modules share %d requirements", shared)
	}
}
