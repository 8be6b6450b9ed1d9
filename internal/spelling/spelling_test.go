package spelling_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/internal/test/check"
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
		check.Equal(t, fmt.Sprintf("Nearest(%q)", test.text), spelling.Nearest(test.text, words), test.word)
		check.Equal(t, fmt.Sprintf("NearestName(%q)", test.text), spelling.NearestName(test.text, words), test.name)
	}
	if got := spelling.Meant("Bursts", words); got != `; did you mean "burst"?` {
		t.Error(got)
	}
	if got := spelling.Quote(strings.Repeat("ä", 40)); got != `"`+strings.Repeat("ä", 30)+`"…` {
		t.Error(got)
	}
}
