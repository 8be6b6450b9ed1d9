package must_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// ending is a test that ends its goroutine's function by a panic, in place of the goroutine.
type ending struct {
	testing.TB
	helpers int
}

type ended string

func (e *ending) Helper()           { e.helpers++ }
func (e *ending) Fatal(args ...any) { panic(ended(fmt.Sprint(args...))) }

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(testing.TB)
		want ended // "" if the test goes on
	}{
		{"no error", func(t testing.TB) { must.OK(t, nil) }, ""},
		{"an error", func(t testing.TB) { must.OK(t, errors.New("broken")) }, "broken"},
		{"a value and an error", func(t testing.TB) { must.Get(strconv.Atoi("a"))(t) }, `strconv.Atoi: parsing "a": invalid syntax`},
		{"a value that is not used", func(t testing.TB) { must.Do(strconv.Atoi("1"))(t) }, ""},
		{"an error in its place", func(t testing.TB) { must.Do(strconv.Atoi("a"))(t) }, `strconv.Atoi: parsing "a": invalid syntax`},
		{"equal", func(t testing.TB) { must.Equal(t, "status", 200, 200) }, ""},
		{"not equal", func(t testing.TB) { must.Equal(t, "body", "a", "b") }, `body: got "a", want "b"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var e ending
			defer func() {
				end, _ := recover().(ended)
				if end != tt.want {
					t.Errorf("ended with %q, want %q", end, tt.want)
				}
				if want := min(len(tt.want), 1); e.helpers != want {
					t.Errorf("%d calls of Helper, want %d: the line reported would not be the test's", e.helpers, want)
				}
			}()
			tt.do(&e)
		})
	}
}

func TestGetGivesTheValue(t *testing.T) {
	t.Parallel()
	if got := must.Get(strconv.Atoi("42"))(t); got != 42 {
		t.Errorf("got %d, want 42", got)
	}
}
