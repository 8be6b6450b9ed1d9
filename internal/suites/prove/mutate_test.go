package prove

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const root = "../../.."

// TestMutationsApply keeps the list true: what a mutation replaces is there, once.
func TestMutationsApply(t *testing.T) {
	for _, m := range mutations {
		text, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: %d times in the file, and not once: %q (%s)", m.file, n, m.old, m.what)
		}
	}
}

// TestMutations breaks the code, one mutation at a time, and sees whether histories notice. With
// -mutations it writes what became of each to docs/proof.md.
func TestMutations(t *testing.T) {
	if *mutate == "" {
		t.Skip("it takes minutes: make prove MUTATIONS=1")
	}
	rows := []string{"| What is wrong | In | Noticed by | Histories until then |", "| --- | --- | --- | --- |"}
	caught, ran := 0, 0
	page, err := os.ReadFile(filepath.Join(root, "docs/proof.md"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(*mutate)
	for _, m := range mutations {
		if *mutate != "1" && !wanted.MatchString(m.what) { // the row stays as it is
			if row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(m.what) + ` \|.*$`).Find(page); row != nil {
				rows = append(rows, string(row))
			}
			continue
		}
		ran++
		noticed, after := m.run(t)
		if noticed != "" {
			caught++
		}
		switch {
		case noticed == "" && m.survives == "":
			t.Errorf("nobody noticed: %s (%s)", m.what, m.file)
			noticed = "nobody"
		case noticed == "":
			noticed, after = "nobody: "+m.survives, "–"
		}
		row := fmt.Sprintf("| %s | `%s` | %s | %s |", m.what, m.file, noticed, after)
		t.Log(row)
		rows = append(rows, row)
	}
	t.Logf("%d of %d noticed", caught, ran)
	replaceBetween(t, filepath.Join(root, "docs/proof.md"), "mutations", strings.Join(rows, "\n"))
}

var histories = regexp.MustCompile(`(?m)^all +(\d+) +(\d+)`)

// run makes the mutation in an overlay of the module, and returns which histories noticed, and after how many.
func (m *mutation) run(t *testing.T) (noticed, after string) {
	t.Helper()
	dir := t.TempDir()
	original, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	wrong, overlay, binary := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "prove.test")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: wrong}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{wrong: bytes.Replace(text, []byte(m.old), []byte(m.new), 1), overlay: replace} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", m.what, err, out)
		return "", ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// The kind has all of the time.
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^Test("+m.kinds+")$", "-test.failfast", "-for", "30s", "-alone", "-pictures", dir)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", ""
	}
	made := histories.FindSubmatch(out)
	if made == nil || !bytes.Contains(out, []byte("--- FAIL")) {
		t.Errorf("%s: %v\n%s", m.what, err, out)
		return "", ""
	}
	return m.kinds, string(made[1])
}

// replaceBetween writes text between the marks of a part of a page.
func replaceBetween(t *testing.T, path, part, text string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+" -->\n", "\n<!-- end -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, behind, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no %q … %q", path, begin, end)
	}
	if err := os.WriteFile(path, []byte(before+begin+text+end+behind), 0o644); err != nil {
		t.Fatal(err)
	}
}
