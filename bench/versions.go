package bench

import (
	_ "embed"
	"strings"
)

// A test binary does not know the versions in it, so go.mod has to tell.
//
//go:embed go.mod
var goMod string

// version returns the version of a module that go.mod asks for, which is the version in use,
// or "" if it names none.
func version(module string) string {
	for line := range strings.Lines(goMod) {
		switch fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); {
		case len(fields) < 2 || fields[0] != module:
		case module == "github.com/weblimit/weblimit": // replaced, so the version that stands there is not in use
			return "this repository"
		default:
			return fields[1]
		}
	}
	return ""
}
