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
			before := time.Now()
			for {
				if strings.HasPrefix(line, "  ") {
					began := time.Now()
					last := follow(t, line, before)
					before = began
					if last == "429" {
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

// follow runs a line of a tour and returns the status that its comment promises last. before is when
// the line before it was run.
//
// On a busy machine, buckets refill while curl waits for a processor. A line that has taken a second since
// the one before is run again if it is not denied, as often as it takes: from then on it may be denied at once.
func follow(t *testing.T, line string, before time.Time) string {
	t.Helper()
	promised := promise.FindStringSubmatch(line)
	if promised == nil {
		t.Errorf("%q does not say what comes back", line)
		return ""
	}
	last := cmp.Or(promised[3], promised[2])
	for tries := 1; ; tries++ {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		command := promised[1]
		if tries > 1 { // at once: one after the other they may be slower than the limit
			command = strings.Replace(command, "; done", " & done; wait", 1)
		}
		out, err := exec.CommandContext(ctx, "sh", "-c", command).Output()
		cancel()
		if err != nil {
			t.Errorf("%s: %v", promised[1], err)
			return ""
		}
		var statuses []string
		for _, found := range status.FindAllStringSubmatch(string(out), -1) {
			statuses = append(statuses, found[1]+found[2])
		}
		if len(statuses) > 0 && (tries > 1 || statuses[0] == promised[2]) && slices.Contains(statuses, last) && strings.Contains(string(out), promised[4]) {
			return last
		}
		if last != "429" || tries == 20 || time.Since(before) < time.Second {
			t.Errorf("%s: statuses %v, promised %s\n%s", promised[1], statuses, line, out)
			return last
		}
	}
}
