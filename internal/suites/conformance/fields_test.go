package conformance

import (
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/must"
)

// member is one member of a field as a client reads it.
type member struct {
	name   string
	params []string
	values []int64
}

// parse reads a field as a client does and checks that it is serialized exactly as RFC 9651
// prescribes.
func parse(t testing.TB, field string, lines []string) []member {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%s is no List: %v\n\t%q", field, err, lines)
	}
	again, err := httpsfv.Marshal(list)
	if err != nil {
		t.Fatalf("%s can't be written again: %v\n\t%q", field, err, lines)
	}
	if !slices.Equal(lines, []string{again}) {
		t.Fatalf("%s is not as RFC 9651 serializes it: got\n\t%q, want\n\t%q", field, lines, again)
	}
	members := make([]member, len(list))
	for i := range list {
		item, isItem := list[i].(httpsfv.Item)
		name, isString := item.Value.(string)
		if !isItem || !isString {
			t.Fatalf("member %d of %s is %#v, want a String\n\t%q", i, field, list[i], lines)
		}
		members[i] = member{name: name, params: item.Params.Names()}
		for _, param := range item.Params.Names() {
			value, _ := item.Params.Get(param)
			n, isInteger := value.(int64)
			if !isInteger || n < 0 {
				t.Fatalf("%s of member %d of %s is %#v, want an Integer that is not negative\n\t%q", param, i, field, value, lines)
			}
			members[i].values = append(members[i].values, n)
		}
	}
	return members
}

const largest = 999_999_999_999_999 // RFC 9651, section 3.3.1

// check compares the fields of a decision with its results.
func checkRead(t testing.TB, rules []core.Rule, d core.Decision) {
	t.Helper()
	checkResults(t, rules, d.Results(), d)
}

// checkResults is check for decisions with results that clients do not see.
func checkResults(t testing.TB, rules []core.Rule, results []core.LimitResult, d core.Decision) {
	t.Helper()
	h, direct := http.Header{}, http.Header{}
	d.SetHeaders(h)
	d.SetHeaders(adapter.HeaderMap(direct))
	for _, field := range []string{"Ratelimit-Policy", "Ratelimit", "Retry-After"} {
		if !slices.Equal(h[field], direct[field]) {
			t.Fatalf("%s is %q through http.Header and %q through HeaderMap", field, h[field], direct[field])
		}
	}

	policies := parse(t, "RateLimit-Policy", h["Ratelimit-Policy"])
	must.Equal(t, "members that RateLimit-Policy has", len(policies), len(rules))
	for i, p := range policies {
		r := &rules[i]
		params, values := []string{"q"}, []int64{min(r.Burst, largest)}
		if w, ok := fillSeconds(r); ok {
			params, values = append(params, "w"), append(values, w)
		}
		if p.name != r.Name || !slices.Equal(p.params, params) || !slices.Equal(p.values, values) {
			t.Fatalf("RateLimit-Policy has the member %+v, want %q with %q of %v", p, r.Name, params, values)
		}
	}

	limits := parse(t, "RateLimit", h["Ratelimit"])
	must.Equal(t, "members that RateLimit has", len(limits), len(rules))
	longest := int64(0)
	for i, l := range limits {
		r := results[i]
		values := []int64{min(r.Remaining, largest), max(ceilSeconds(r.Window), 1)}
		if l.name != rules[i].Name || !slices.Equal(l.params, []string{"r", "t"}) || !slices.Equal(l.values, values) {
			t.Fatalf("RateLimit has the member %+v, want %q with r and t of %v", l, rules[i].Name, values)
		}
		if l.values[0] > policies[i].values[0] {
			t.Fatalf("RateLimit of %q has r=%d above q=%d", l.name, l.values[0], policies[i].values[0])
		}
		if !r.Allowed {
			if longest >= 0 {
				longest = max(longest, ceilSeconds(r.RetryAfter))
			}
			if r.RetryAfter == 0 {
				longest = -1 // never: no wait helps
			}
		}
	}

	switch lines := h["Retry-After"]; {
	case longest <= 0 && len(lines) != 0:
		t.Fatalf("Retry-After is %q where no wait helps or none is needed", lines)
	case longest > 0:
		// delay-seconds of RFC 9110, section 10.2.3.
		if !slices.Equal(lines, []string{strconv.FormatInt(longest, 10)}) {
			t.Fatalf("Retry-After is %q, want %d", lines, longest)
		}
	}
}

// fillSeconds returns the time in which a rule grants its burst, if that is a whole number
// of seconds.
func fillSeconds(r *core.Rule) (int64, bool) {
	fill := big.NewRat(r.Burst, r.Quota)
	fill.Mul(fill, big.NewRat(int64(r.Window), int64(time.Second)))
	return fill.Num().Int64(), fill.IsInt() && fill.Num().Sign() > 0
}

func ceilSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
