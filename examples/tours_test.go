package examples_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each program prints a tour: curl commands, each with a comment that says what comes back.
// "200, then 429: text (remark)" means these statuses in this order, and the text in the output.
// Readers paste the lines one after the other, and so does this test.
func TestToursReachWhatTheyPromise(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for _, name := range slices.Concat(programs, []string{"api", "llm", "login", "exports", "observed/server", "service/server"}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join(name, "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			commands, reached := strings.Count(string(source), "\n  "), 0 // code is indented by tabs
			line, rest := startAndRead(t, build(t, name), "")
			for {
				if strings.HasPrefix(line, "  ") {
					if follow(t, line) == "429" {
						reached++
					}
					commands--
				}
				if commands == 0 || !rest.Scan() {
					break
				}
				line = rest.Text()
			}
			if commands != 0 || reached == 0 {
				t.Errorf("the tour reaches %d limits, and %d of its commands are missing", reached, commands)
			}
		})
	}
}

var (
	promise = regexp.MustCompile(`^  (.*\S)\s+# (\d{3})(?:, then (\d{3}))?(?:: (.*?))?(?: \([^)]*\))?$`)
	status  = regexp.MustCompile(`(?m)^HTTP/\S+ (\d{3})| (\d{3})(?: after .*)?$`)
)

// follow runs a line of a tour and returns the status that its comment promises last.
func follow(t *testing.T, line string) string {
	t.Helper()
	promised := promise.FindStringSubmatch(line)
	if promised == nil {
		t.Errorf("%q does not say what comes back", line)
		return ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", promised[1]).Output()
	if err != nil {
		t.Errorf("%s: %v", promised[1], err)
		return ""
	}
	var statuses []string
	for _, found := range status.FindAllStringSubmatch(string(out), -1) {
		statuses = append(statuses, found[1]+found[2])
	}
	last := cmp.Or(promised[3], promised[2])
	if len(statuses) == 0 || statuses[0] != promised[2] || !slices.Contains(statuses, last) || !strings.Contains(string(out), promised[4]) {
		t.Errorf("%s: statuses %v, promised %s\n%s", promised[1], statuses, line, out)
	}
	return last
}
