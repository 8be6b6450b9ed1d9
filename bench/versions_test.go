package bench

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/bench/peers"
)

func TestVersionsAreKnown(t *testing.T) {
	t.Parallel()
	for _, p := range peers.All() {
		want := "v"
		if p.Module == "github.com/weblimit/weblimit" {
			want = "this repository"
		}
		if got := version(p.Module); !strings.HasPrefix(got, want) {
			t.Errorf("%s: version %q of %s", p.Name, got, p.Module)
		}
	}
	if got := version("example.com/none"); got != "" {
		t.Errorf("version %q of a module that is not required", got)
	}
}
