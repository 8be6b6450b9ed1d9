package twins

import (
	"flag"
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

var update = flag.Bool("update", false, "write the copies instead of comparing them")

// A copy is what its source says.
func TestCopiesAreCurrent(t *testing.T) {
	t.Parallel()
	for _, twin := range Twins {
		for path, want := range must.Get(twin.Copies("../../.."))(t) {
			if *update {
				check.OK(t, os.WriteFile(path, []byte(want), 0o644))
				continue
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%s is not the copy that `make twins` writes; change its source in %s instead (%v)", path, twin.From, err)
			}
		}
	}
}
