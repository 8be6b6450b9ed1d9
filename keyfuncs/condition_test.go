package keyfuncs_test

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func wantMatch(t *testing.T, c keyfuncs.Condition, r keyfuncs.Request, want bool) {
	t.Helper()
	if err := c.Err(); err != nil {
		t.Fatalf("Err() = %v", err)
	}
	check.Equal(t, fmt.Sprintf("Match(%+v)", r), c.Match(r), want)
	check.Equal(t, fmt.Sprintf("Not: Match(%+v)", r), keyfuncs.Not(c).Match(r), !want)
}

func wantAnswer(t *testing.T, name string, c keyfuncs.Condition, r keyfuncs.Request, want keyfuncs.Answer) {
	t.Helper()
	check.All(t, name, []any{c.Ask(r), c.Match(r)}, want, want == keyfuncs.Yes)
}

// wantConditionErr checks that c never holds, however it is combined, and says why.
func wantConditionErr(t *testing.T, c keyfuncs.Condition, want string) {
	t.Helper()
	yes := keyfuncs.Matches(func(keyfuncs.Request) bool { return true })
	for _, c := range []keyfuncs.Condition{
		c, keyfuncs.Not(c), keyfuncs.Not(keyfuncs.Not(c)), keyfuncs.Any(yes, c), keyfuncs.All(c), keyfuncs.Not(keyfuncs.Any(c)),
	} {
		check.Equal(t, "Err", fmt.Sprint(c.Err()), want)
		if c.Match(&request{peer: "192.0.2.7", method: "GET", route: "/healthz"}) {
			t.Error("an invalid condition holds")
		}
	}
}

func TestConditionsCombine(t *testing.T) {
	t.Parallel()
	asked := 0
	is := func(answer bool) keyfuncs.Condition {
		return keyfuncs.Matches(func(keyfuncs.Request) bool { asked++; return answer })
	}
	yes, no := is(true), is(false)
	for _, tt := range []struct {
		name  string
		c     keyfuncs.Condition
		want  bool
		asked int
	}{
		{"a function", yes, true, 1},
		{"a function that says no", no, false, 1},
		{"not", keyfuncs.Not(yes), false, 1},
		{"not not", keyfuncs.Not(keyfuncs.Not(yes)), true, 1},
		{"all of one", keyfuncs.All(yes), true, 1},
		{"all", keyfuncs.All(yes, yes), true, 2},
		{"all but one", keyfuncs.All(yes, no, yes), false, 2},
		{"any of one", keyfuncs.Any(no), false, 1},
		{"any", keyfuncs.Any(no, yes, no), true, 2},
		{"not any", keyfuncs.Not(keyfuncs.Any(no, no)), true, 2},
		{"all of any", keyfuncs.All(keyfuncs.Any(no, yes), keyfuncs.Not(no)), true, 3},
	} {
		asked = 0
		check.Equal(t, tt.name, tt.c.Match(&request{}), tt.want)
		check.Equal(t, tt.name+": questions", asked, tt.asked)
	}
}

// Kleene's logic: the answer is Unknown only if the unknown part matters.
func TestConditionsCombineWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	const no, unknown, yes = keyfuncs.No, keyfuncs.Unknown, keyfuncs.Yes
	r := &request{method: "GET", unknown: true}
	says := map[keyfuncs.Answer]keyfuncs.Condition{
		no: keyfuncs.Methods("POST"), unknown: keyfuncs.Routes("/a"), yes: keyfuncs.Methods("GET"),
	}
	for a, want := range map[keyfuncs.Answer]keyfuncs.Answer{no: yes, unknown: unknown, yes: no} {
		wantAnswer(t, fmt.Sprint(a), says[a], r, a)
		wantAnswer(t, fmt.Sprint("not ", a), keyfuncs.Not(says[a]), r, want)
	}
	for a := no; a <= yes; a++ {
		for b := no; b <= yes; b++ {
			wantAnswer(t, fmt.Sprint(a, " and ", b), keyfuncs.All(says[a], says[b]), r, min(a, b))
			wantAnswer(t, fmt.Sprint(a, " or ", b), keyfuncs.Any(says[a], says[b]), r, max(a, b))
		}
	}
	wantAnswer(t, "an invalid condition", keyfuncs.Not(keyfuncs.Routes("a")), r, no)
}

func TestMistakesInConditionsAreErrors(t *testing.T) {
	t.Parallel()
	const zero = "weblimit: keyfuncs: the zero Condition is invalid, use a constructor such as keyfuncs.Routes"
	wantConditionErr(t, keyfuncs.Condition{}, zero)
	wantConditionErr(t, keyfuncs.Not(keyfuncs.Condition{}), zero)
	wantConditionErr(t, keyfuncs.All(keyfuncs.Preflight(), keyfuncs.Condition{}), zero)
	wantConditionErr(t, keyfuncs.All(), "weblimit: keyfuncs.All: no conditions")
	wantConditionErr(t, keyfuncs.Any(), "weblimit: keyfuncs.Any: no conditions")
	wantConditionErr(t, keyfuncs.Matches(nil), "weblimit: keyfuncs.Matches: no function")
}

func TestConditionsKeepNoSliceOfTheCaller(t *testing.T) {
	t.Parallel()
	conditions := []keyfuncs.Condition{keyfuncs.Methods("GET")}
	all, anyOf := keyfuncs.All(conditions...), keyfuncs.Any(conditions...)
	conditions[0] = keyfuncs.Condition{}
	methods := []string{"GET"}
	byMethod := keyfuncs.Methods(methods...)
	methods[0] = "POST"
	for _, c := range []keyfuncs.Condition{all, anyOf, byMethod} {
		wantMatch(t, c, &request{method: "GET"}, true)
	}
}
