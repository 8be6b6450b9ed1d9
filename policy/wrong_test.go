package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

// wrongFile is a file of testdata/wrong.txt.
type wrongFile struct{ name, text, said string }

func wrongFiles(t *testing.T) (head string, all []wrongFile) {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/wrong.txt"))(t)
	head, rest, _ := strings.Cut(string(text), "\n--- ")
	for section := range strings.SplitSeq(rest, "\n--- ") {
		name, body, _ := strings.Cut(section, "\n")
		file, said, _ := strings.Cut(body, "=== \n")
		all = append(all, wrongFile{name, file, strings.TrimSuffix(said, "\n") + "\n"})
	}
	return head, all
}

func TestWrongFiles(t *testing.T) {
	t.Parallel()
	head, all := wrongFiles(t)
	if len(all) < 50 {
		t.Errorf("%d wrong files, want 50 or more", len(all))
	}
	var b strings.Builder
	b.WriteString(head)
	for _, w := range all {
		_, err := policy.Parse("limits.yaml", []byte(w.text))
		said := ""
		if err == nil {
			t.Errorf("%s: no error", w.name)
		} else {
			said = strings.TrimPrefix(err.Error(), "weblimit: policy: ") + "\n"
		}
		if said != w.said && !*update {
			t.Errorf("%s: it says\n%s\nwant\n%s", w.name, said, w.said)
		}
		b.WriteString("\n--- " + w.name + "\n" + w.text + "=== \n" + said)
	}
	if *update {
		write(t, "testdata/wrong.txt", b.String())
	}
}
