package documents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// What each package of metrics emits is searched for secrets, by a test of examples/api/secrets that has a line for it. The page
// for operators says what it is for.
func TestWhatIsEmittedIsSearchedForSecrets(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	Sources(t, "_test.go", func(path, source string) {
		if filepath.Base(filepath.Dir(path)) == "secrets" {
			all.WriteString(source)
		}
	})
	page := Read(t, "run/operations.md")
	for _, folder := range must.Get(os.ReadDir(filepath.Join(Root, "metrics")))(t) {
		if !strings.Contains(all.String(), `"github.com/weblimit/weblimit/metrics/`+folder.Name()+`"`) {
			t.Errorf("no test of examples/api/secrets has what metrics/%s emits: give its sinks a line", folder.Name())
		}
		if !strings.Contains(page, "metrics/"+folder.Name()) {
			t.Errorf("docs/run/operations.md does not say what metrics/%s is for", folder.Name())
		}
	}
}
