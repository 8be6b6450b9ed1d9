package documents

import (
	"strings"
	"testing"
)

// Every entry of the threat model names a test that exists.
func TestSecurityNamesItsTests(t *testing.T) {
	t.Parallel()
	text := Read(t, "security.md")
	Exist(t, References(text))
	rows := 0
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		if len(cells) < 2 || last == "Test" || strings.HasPrefix(last, "---") {
			continue
		}
		rows++
		if len(References(last)) == 0 {
			t.Errorf("this entry names no test:\n%s", line)
		}
	}
	if rows < 70 {
		t.Errorf("the threat model has %d entries", rows)
	}
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
	if missing.errors != 2 {
		t.Errorf("%d of two are missed", missing.errors)
	}
}

// recorder counts errors instead of failing.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Errorf(string, ...any) { r.errors++ }
