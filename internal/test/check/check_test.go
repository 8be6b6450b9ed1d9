package check_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// log is a test that keeps what is reported.
type log struct {
	testing.TB
	said    []string
	helpers int
}

func (l *log) Helper()           { l.helpers++ }
func (l *log) Error(args ...any) { l.said = append(l.said, fmt.Sprint(args...)) }

func (l *log) Errorf(format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

type color string

type point struct{ X, Y int }

func TestReports(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		do   func(testing.TB)
		want string // "" if nothing is reported
	}{
		{"no error", func(t testing.TB) { check.OK(t, nil) }, ""},
		{"an error", func(t testing.TB) { check.OK(t, broken) }, "broken"},
		{"equal", func(t testing.TB) { check.Equal(t, "status", 200, 200) }, ""},
		{"numbers", func(t testing.TB) { check.Equal(t, "status", int64(200), 429) }, "status: got 200, want 429"},
		{"strings", func(t testing.TB) { check.Equal(t, "body", "a\n", "") }, `body: got "a\n", want ""`},
		{"strings of a type", func(t testing.TB) { check.Equal(t, "color", color("red"), "blue") }, `color: got "red", want "blue"`},
		{"structs", func(t testing.TB) { check.Equal(t, "at", point{1, 2}, point{}) }, "at: got {X:1 Y:2}, want {X:0 Y:0}"},
		{"interfaces", func(t testing.TB) { check.Equal(t, "value", any(nil), any("a")) }, `value: got <nil>, want "a"`},
		{"all", func(t testing.TB) { check.All(t, "decided", []any{int64(1), "a", nil}, 1, "a", nil) }, ""},
		{"not all", func(t testing.TB) { check.All(t, "decided", []any{1, "a"}, 1, "b") }, "decided: got [1 a], want [1 b]"},
		{"too few", func(t testing.TB) { check.All(t, "decided", []any{"a b"}, "a", "b") }, "decided: got [a b], want [a b]"},
		{"equal slices", func(t testing.TB) { check.Slices(t, "keys", []int{1}, []int{1}) }, ""},
		{"slices", func(t testing.TB) { check.Slices(t, "keys", []int{1, 2}, []int{2, 1}) }, "keys: got [1 2], want [2 1]"},
		{"slices of strings", func(t testing.TB) { check.Slices(t, "keys", nil, []string{"a b"}) }, `keys: got [], want ["a b"]`},
		{"a part", func(t testing.TB) { check.Contains(t, "log", "outage began", "began") }, ""},
		{"no part", func(t testing.TB) { check.Contains(t, "log", "outage began", "ended") }, "log: \"ended\" is missing in\noutage began"},
		{"a wrapped error", func(t testing.TB) { check.Is(t, "Reset", fmt.Errorf("now: %w", broken), broken) }, ""},
		{"another error", func(t testing.TB) { check.Is(t, "Reset", errors.New("late"), broken) }, "Reset: got error late, want broken"},
		{"the error", func(t testing.TB) { check.Fails(t, "New", broken, "rok") }, ""},
		{"an error of another text", func(t testing.TB) { check.Fails(t, "New", broken, "late") }, `New: got error broken, want one with "late"`},
		{"success", func(t testing.TB) { check.Fails(t, "New", nil, "late") }, `New: got error <nil>, want one with "late"`},
		{"errors", func(t testing.TB) { check.Equal(t, "Err", nil, broken) }, "Err: got <nil>, want broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l log
			tt.do(&l)
			switch {
			case tt.want == "" && len(l.said) > 0:
				t.Errorf("reported %q, want nothing", l.said)
			case tt.want != "" && (len(l.said) != 1 || l.said[0] != tt.want):
				t.Errorf("reported %q, want %q", l.said, tt.want)
			case l.helpers != len(l.said):
				t.Errorf("%d reports, and %d calls of Helper: the line reported would not be the test's", len(l.said), l.helpers)
			}
		})
	}
}
