package policy

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
)

// What core knows by a number has a word in files.
func TestEveryValueHasAWord(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind  string
		words []string
		text  func(i int) string // with the kind in front if core does not know the value
	}{
		{"Headers", dialects, func(i int) string { return core.Headers(1 << i).String() }},
		{"HeadersWhen", headersWhens, func(i int) string { return core.HeadersWhen(i).String() }},
		{"MissingKey", missingKeys, func(i int) string { return core.MissingKey(i).String() }},
		{"RegionMode", regionModes, func(i int) string {
			return strings.Replace(core.RegionMode(i).String(), "unknown mode", "RegionMode(", 1)
		}},
		{"OutageAction", outages, func(i int) string { return core.OutageAction(i).String() }},
	} {
		for i, word := range tt.words {
			if strings.HasPrefix(tt.text(i), tt.kind+"(") {
				t.Errorf("the word %s stands for %s, which core does not know", word, tt.text(i))
			}
		}
		if next := tt.text(len(tt.words)); !strings.HasPrefix(next, tt.kind+"(") {
			t.Errorf("core knows %s %s, for which files have no word", tt.kind, next)
		}
	}
}
