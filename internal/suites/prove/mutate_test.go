package prove

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/mutants"
	"github.com/weblimit/weblimit/internal/test/must"
)

const root = mutants.Root

// TestMutations breaks the code, one mutation at a time, and sees whether histories notice. With
// -mutations it writes what became of each to docs/maintain/proof.md.
func TestMutations(t *testing.T) {
	if *mutate == "" {
		t.Skip("it takes minutes: make prove MUTATIONS=1")
	}
	rows := []string{"| What is wrong | In | Noticed by | Histories until then |", "| --- | --- | --- | --- |"}
	caught, ran := 0, 0
	page := must.Get(os.ReadFile(filepath.Join(root, "docs/maintain/proof.md")))(t)
	wanted := regexp.MustCompile(*mutate)
	for _, m := range mutants.Stores() {
		if *mutate != "1" && !wanted.MatchString(m.What) { // the row stays as it is
			if row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(m.What) + ` \|.*$`).Find(page); row != nil {
				rows = append(rows, string(row))
			}
			continue
		}
		ran++
		noticed, after := historiesOn(t, &m)
		if noticed != "" {
			caught++
		}
		switch {
		case noticed == "" && m.Unproved == "":
			t.Errorf("nobody noticed: %s (%s)", m.What, m.File)
			noticed = "nobody"
		case noticed == "":
			noticed, after = "nobody: "+m.Unproved, "–"
		}
		row := fmt.Sprintf("| %s | `%s` | %s | %s |", m.What, m.File, noticed, after)
		t.Log(row)
		rows = append(rows, row)
	}
	t.Logf("%d of %d noticed", caught, ran)
	replaceBetween(t, filepath.Join(root, "docs/maintain/proof.md"), "mutations", strings.Join(rows, "\n"))
}

var histories = regexp.MustCompile(`(?m)^all +(\d+) +(\d+)`)

// historiesOn makes histories with the mutant, and returns which noticed, and after how many.
func historiesOn(t *testing.T, m *mutants.Mutant) (noticed, after string) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "prove.test")
	overlay := must.Get(m.Overlay(root, dir))(t)
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", m.What, err, out)
		return "", ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// The kind has all of the time.
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^Test("+m.Histories+")$", "-test.failfast", "-for", "30s", "-alone", "-pictures", dir)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", ""
	}
	made := histories.FindSubmatch(out)
	if made == nil || !bytes.Contains(out, []byte("--- FAIL")) {
		t.Errorf("%s: %v\n%s", m.What, err, out)
		return "", ""
	}
	return m.Histories, string(made[1])
}

// replaceBetween writes text between the marks of a part of a page.
func replaceBetween(t *testing.T, path, part, text string) {
	t.Helper()
	page := must.Get(os.ReadFile(path))(t)
	begin, end := "<!-- "+part+" -->\n", "\n<!-- end -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, behind, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no %q … %q", path, begin, end)
	}
	must.OK(t, os.WriteFile(path, []byte(before+begin+text+end+behind), 0o644))
}
