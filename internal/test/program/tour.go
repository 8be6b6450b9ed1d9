package program

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/wait"
)

// A tour is what a program prints for its readers: commands, each with a comment that says what comes back.
// "200, then 429: text (remark)" means these statuses in this order, and the text in the output.
var (
	command = regexp.MustCompile(`^  \S`)
	promise = regexp.MustCompile(`^  (.*\S)\s+# (\w+)(?:, then (\w+))?(?:: (.*?))?(?: \([^)]*\))?$`)
	ofCurl  = regexp.MustCompile(`HTTP/\S+ (\d{3})`)
	alone   = regexp.MustCompile(`(?m) (\d{3})(?: after .*)?$|^([A-Z]\w+)(?:,.*| ".*)?$`) // of clients that print it without its response
	pause   = regexp.MustCompile(`^sleep \d+; `)
)

// denials are the statuses of requests beyond a limit.
var denials = []string{"429", "ResourceExhausted"}

// Tour returns the commands that the program prints, of which there are so many.
func (r *Running) Tour(commands int) (tour []string) {
	r.tb.Helper()
	for range commands {
		tour = append(tour, r.Line(command))
	}
	return tour
}

// Follow runs the commands of a tour one after the other, as readers paste them. One of them has to be denied.
//
// On a busy machine, buckets refill while a command waits for a processor, and a Redis that takes longer than a
// limiter waits for, a tenth of a second, is stood in for by a bucket in the process. So a command that ought to be
// denied, and began two of these after the one before, is run again if it is not.
func Follow(tb testing.TB, tour []string) {
	tb.Helper()
	denied, before := false, time.Now()
	for _, line := range tour {
		promised := promise.FindStringSubmatch(line)
		if promised == nil {
			tb.Errorf("%q does not say what comes back", line)
			continue
		}
		s := step{command: promised[1], first: promised[2], last: cmp.Or(promised[3], promised[2]), text: promised[4]}
		began := time.Now()
		if moment := pause.FindString(s.command); moment != "" { // for something that happens meanwhile, which a busy machine takes longer for
			s.command = strings.TrimPrefix(s.command, moment)
			wait.For(tb, "the tour keeps its word", func() error { return s.run(tb) })
		} else if err := s.runAgain(tb, before); err != nil {
			tb.Errorf("%s\n%v", line, err)
		}
		denied, before = denied || isDenial(s.last), began
	}
	if !denied {
		tb.Error("the tour reaches no limit")
	}
}

// step is a command of a tour, the statuses that it is to begin with and to have, and a text of its output.
type step struct{ command, first, last, text string }

// runAgain is run, as often as a machine may be late that began the command before at a time.
func (s step) runAgain(tb testing.TB, before time.Time) error {
	tb.Helper()
	err := s.run(tb)
	for tries := 1; err != nil && tries < 20 && isDenial(s.last) && time.Since(before) > 200*time.Millisecond; tries++ {
		s.first = ""                                                         // it may be denied at once
		s.command = strings.Replace(s.command, "; done", " & done; wait", 1) // one request after the other may be slower than the limit
		err = s.run(tb)
	}
	return err
}

// run runs the command, and returns an error if what comes back is not what was promised.
func (s step) run(tb testing.TB) error {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", s.command).Output()
	statuses := statusesOf(string(out))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", s.command, err)
	case len(statuses) == 0, s.first != "" && statuses[0] != s.first, !slices.Contains(statuses, s.last), !strings.Contains(string(out), s.text):
		return fmt.Errorf("%s: statuses %v, and the output\n%s", s.command, statuses, out)
	case s.first == s.last && !isDenial(s.last) && slices.ContainsFunc(statuses, isDenial):
		return fmt.Errorf("%s also denies\n%s", s.command, out)
	}
	return nil
}

func isDenial(status string) bool { return slices.Contains(denials, status) }

// NeedCurl skips the test where there is no curl, unless CI=true.
func NeedCurl(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
}

// statusesOf returns the statuses in an output. One that has a response with its head has no others: in a body, such as one of metrics, a
// line can end in any number.
func statusesOf(out string) (statuses []string) {
	for _, found := range ofCurl.FindAllStringSubmatch(out, -1) {
		statuses = append(statuses, found[1])
	}
	if len(statuses) > 0 {
		return statuses
	}
	for _, found := range alone.FindAllStringSubmatch(out, -1) {
		statuses = append(statuses, found[1]+found[2])
	}
	return statuses
}
