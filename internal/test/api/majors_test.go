package api

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// The adapters of two major versions of a framework have the same names and signatures, but for
// the framework's own types. Whoever adds to one is to add to the other.
func TestAdaptersOfAFrameworkAreAlike(t *testing.T) {
	t.Parallel()
	for _, pair := range [][4]string{
		{"echolimit", "echo.Context", "echo5limit", "*echo.Context"},
		{"fiberlimit", "*fiber.Ctx", "fiber3limit", "fiber.Ctx"},
	} {
		read := func(adapter, own string) string {
			text := must.Get(os.ReadFile(filepath.Join("../../../api", adapter+".txt")))(t)
			return strings.ReplaceAll(strings.ReplaceAll(string(text), own, "context"), adapter, "adapter")
		}
		if one, two := read(pair[0], pair[1]), read(pair[2], pair[3]); one != two {
			t.Errorf("%s:\n%s\n%s:\n%s", pair[0], one, pair[2], two)
		}
	}
}
