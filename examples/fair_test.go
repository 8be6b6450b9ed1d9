package examples_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
)

// Under the plain limit most requests of the light clients are denied, and under the fair one next to none: on a busy machine the
// program may stand still, and then ask for much at once.
func TestFair(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.OK(t, program.Build(dir, ".", "./fair"))
	cmd := program.Command(filepath.Join(dir, "fair"))
	cmd.Args = append(cmd.Args, "-for", "3s")
	out := string(must.Get(cmd.CombinedOutput())(t))
	for _, line := range []string{`the others get +\d+/s +[45]\d\d/s`, `of the others, denied +[5-9]\d\.\d% +\d\.\d%`} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("%q is not in\n%s", line, out)
		}
	}
}
