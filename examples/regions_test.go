package examples_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
)

// Three regions grant no more than one limit, and the one whose link is cut says so.
func TestRegions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.OK(t, program.Build(dir, ".", "./regions"))
	cmd := program.Command(filepath.Join(dir, "regions"))
	cmd.Args = append(cmd.Args, "-for", "5s")
	cmd.Stdin = strings.NewReader("us\n")
	out := string(must.Get(cmd.CombinedOutput())(t))
	for _, line := range []string{`eu +#* +[1-9]\d* of +[1-9]\d* asked`, `us .* CUT: lives on its floor`, `all [1-9]\d{0,2} of 600 this minute`} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("%q is not in\n%s", line, out)
		}
	}
}
