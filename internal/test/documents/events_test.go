package documents

import (
	"regexp"
	"strings"
	"testing"
)

var kind = regexp.MustCompile(`(?m)^\s*\w+\s+(?:store\.|core\.)?EventKind\s*= "([^"]+)"`)

// Events are named by those who raise them, and observers that do not import package quota have its words.
func TestObserversKnowTheKindsOfEvents(t *testing.T) {
	t.Parallel()
	raised := map[string]string{}
	heard := 0
	Sources(t, ".go", func(file, source string) {
		if strings.HasSuffix(file, "_test.go") || !raises(file) {
			return
		}
		for _, found := range kind.FindAllStringSubmatch(source, -1) {
			if other, twice := raised[found[1]]; twice {
				t.Errorf("%s and %s both declare the event %q", other, file, found[1])
			}
			raised[found[1]] = file
		}
	})
	Sources(t, ".go", func(file, source string) {
		if raises(file) {
			return
		}
		for _, found := range kind.FindAllStringSubmatch(source, -1) {
			heard++
			if raised[found[1]] == "" {
				t.Errorf("%s hears of the event %q, which nobody raises", file, found[1])
			}
		}
	})
	if len(raised) < 21 || heard < 16 {
		t.Errorf("%d kinds are raised, and %d times one is heard", len(raised), heard)
	}
}

func raises(file string) bool {
	return strings.Contains(file, "core/store/") || strings.Contains(file, "core/redisstore/") || strings.Contains(file, "/regions/") || strings.Contains(file, "/quota/") && !strings.Contains(file, "/suites/")
}
