package keyfuncs_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Percent holds for its part of the keys, however alike they are, and a higher percentage holds
// for all keys of a lower one.
func TestPercentIsOfKeys(t *testing.T) {
	t.Parallel()
	const clients = 20_000
	for name, format := range map[string]string{"ending differently": "user-%d", "beginning differently": "%d@example.org", "numbered": "%08d"} {
		var before []bool
		for _, percent := range []float64{0, 1, 1.5, 10, 50, 100} {
			c := keyfuncs.Percent(percent, keyfuncs.Header("X-User"))
			holds, n := make([]bool, clients), 0
			for i := range holds {
				r := &request{headers: http.Header{"X-User": {fmt.Sprintf(format, i)}}}
				if holds[i] = c.Match(r); holds[i] {
					n++
				}
				if before != nil && before[i] && !holds[i] {
					t.Fatalf("keys %s: client %d is among a lower percentage, and not among %v %%", name, i, percent)
				}
			}
			want := percent / 100 * clients
			if spread := 4 * math.Sqrt(want*(1-percent/100)); math.Abs(float64(n)-want) > spread {
				t.Errorf("keys %s: %v %% are %d of %d clients", name, percent, n, clients)
			}
			before = holds
		}
	}
}

// Instances of several versions choose the same clients.
func TestPercentChoosesTheSameForever(t *testing.T) {
	t.Parallel()
	c := keyfuncs.Percent(20, keyfuncs.Header("X-User"))
	var chosen []string
	for i := range 40 {
		if name := fmt.Sprint("user-", i); c.Match(&request{headers: http.Header{"X-User": {name}}}) {
			chosen = append(chosen, strings.TrimPrefix(name, "user-"))
		}
	}
	check.Equal(t, "chosen", strings.Join(chosen, " "), "2 9 10 18 19 37")
}

func TestPercentOfRequestsWithoutAKey(t *testing.T) {
	t.Parallel()
	of := func(percent float64) keyfuncs.Condition { return keyfuncs.Percent(percent, keyfuncs.Header("X-User")) }
	check.All(t, "requests without the key, which are one client", []any{of(0).Match(&request{}), of(100).Match(&request{})}, false, true)
	twice := &request{headers: http.Header{"X-User": {"alice", "bob"}}}
	check.Equal(t, "a request with the key twice", of(100).Ask(twice), keyfuncs.Unknown)
}

func TestPercentErrors(t *testing.T) {
	t.Parallel()
	for _, percent := range []float64{-1, 0.05, 0.999, 100.1, math.NaN(), math.Inf(1)} {
		check.Fails(t, fmt.Sprint(percent, " %"), keyfuncs.Percent(percent, keyfuncs.Everyone()).Err(), "is neither 0 nor from 1 to 100")
	}
	check.Equal(t, "a key that is none", fmt.Sprint(keyfuncs.Percent(10, keyfuncs.Header("")).Err()), keyfuncs.Header("").Err().Error())
	if err := keyfuncs.Percent(10, keyfuncs.Func{}).Err(); err == nil {
		t.Error("the zero Func has no error")
	}
}

// About one tenth of the users: always the same ones.
func ExamplePercent() {
	few := keyfuncs.Percent(10, keyfuncs.Header("X-User"))

	n := 0
	for i := range 1000 {
		if few.Match(&request{headers: http.Header{"X-User": {fmt.Sprint("user-", i)}}}) {
			n++
		}
	}
	fmt.Println(n, "of 1000 users")
	// Output: 117 of 1000 users
}
