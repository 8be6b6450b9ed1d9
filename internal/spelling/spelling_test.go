package spelling_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/spelling"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"burst", "sliding", "on_missing_key"}
	for _, test := range []struct{ text, word, name string }{
		{"burst", "burst", "burst"},
		{"brust", "burst", "burst"},
		{"bust", "burst", "burst"},
		{"BURST", "", "burst"},
		{"slidign", "sliding", "sliding"},
		{"onMissingKey", "", "on_missing_key"},
		{"on-missing-keys", "", "on_missing_key"},
		{"log", "", ""},
		{"", "", ""},
		{strings.Repeat("burst", 7), "", ""},
	} {
		if got := spelling.Nearest(test.text, words); got != test.word {
			t.Errorf("Nearest(%q) is %q, want %q", test.text, got, test.word)
		}
		if got := spelling.NearestName(test.text, words); got != test.name {
			t.Errorf("NearestName(%q) is %q, want %q", test.text, got, test.name)
		}
	}
	if got := spelling.Meant("Bursts", words); got != `; did you mean "burst"?` {
		t.Error(got)
	}
	if got := spelling.Quote(strings.Repeat("ä", 40)); got != `"`+strings.Repeat("ä", 30)+`"…` {
		t.Error(got)
	}
}
