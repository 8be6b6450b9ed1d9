package documents

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// Every entry of the threat model names a test that exists.
func TestSecurityNamesItsTests(t *testing.T) {
	t.Parallel()
	if rows := rowsNameTests(t, Read(t, "run/security.md")); rows < 70 {
		t.Errorf("the threat model has %d entries", rows)
	}
	if rows := rowsNameTests(t, Read(t, "service/security.md")); rows < 40 {
		t.Errorf("that of the service has %d entries", rows)
	}
}

// Every promise of compatibility names a test that exists.
func TestCompatibilityNamesItsTests(t *testing.T) {
	t.Parallel()
	if rows := rowsNameTests(t, Read(t, "run/compatibility.md")); rows < 10 {
		t.Errorf("the page on compatibility has %d promises", rows)
	}
}

// rowsNameTests fails the test if text names a test that does not exist, or if a row of a table
// with the column "Test" names none. It returns the number of these rows.
func rowsNameTests(t *testing.T, text string) (rows int) {
	t.Helper()
	Exist(t, References(text))
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case len(cells) < 2:
			inTable = false
		case last == "Test":
			inTable = true
		case inTable && !strings.HasPrefix(last, "---"):
			rows++
			if len(References(last)) == 0 {
				t.Errorf("this row names no test:\n%s", line)
			}
		}
	}
	return rows
}

// Exist notices a test or case that does not exist.
func TestExist(t *testing.T) {
	t.Parallel()
	references := References("`TestExist`, `TestExist/a case that is nowhere " + "`, `TestNot" + "There`, Test")
	if len(references) != 3 {
		t.Fatalf("found %v", references)
	}
	missing := &recorder{TB: t}
	Exist(missing, references)
	check.Equal(t, "of two missed", missing.errors, 2)
}

// recorder counts errors instead of failing.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Errorf(string, ...any) { r.errors++ }
