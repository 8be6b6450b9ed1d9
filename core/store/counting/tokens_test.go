package counting

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Judge, Commit and Answer have a way of their own for token buckets. It decides, charges and answers
// as the methods of Bucket and Rule do, for buckets that are unused, expired, in debt, from another
// rule and from before the clock was set back.
func TestTokenBucketsAreDecidedAsTheirMethodsSay(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var rules []store.Rule
	for _, n := range []store.Numbers{
		{Quota: 10, Window: time.Second},
		{Quota: 7, Window: time.Second, Burst: 3},
		{Quota: 3, Window: time.Millisecond, Burst: 1000},
		{Quota: 300_000_007, Window: time.Second},
		{Quota: 10, Window: 24 * time.Hour, Burst: 1},
		{Quota: 10, Window: time.Second, Wait: time.Second},
		{Quota: 10, Window: time.Second, Whole: 20},
		{Quota: 1 << 20, Window: 31 * 24 * time.Hour},
	} {
		n.Algorithm = store.TokenBucket
		r := must.Get(store.NewRule("a", n))(t)
		rules = append(rules, r)
	}
	for i := range long.Rounds(20_000, 200_000) {
		r := &rules[random.IntN(len(rules))]
		from := r
		if random.IntN(8) == 0 {
			from = &rules[random.IntN(len(rules))]
		}
		now := int64(1_800_000_000_000_000) + random.Int64N(1_000_000)
		var b Bucket
		b.Open(from, now, 0)
		b.ChargeAnyway(from, now, random.Int64N(from.Burst+1)+random.Int64N(2)*from.Burst/2)
		switch random.IntN(6) {
		case 0:
			now -= random.Int64N(4 * r.Window.Microseconds()) // the clock was set back
		case 1:
			now += 2 * r.Window.Microseconds()
		default:
			now += random.Int64N(r.Window.Microseconds()/2 + 1)
		}
		cost := min(random.Int64N(r.Burst+2), random.Int64N(4)+random.Int64N(r.Burst+1))
		granted := random.IntN(8) > 0

		s, result := State{Bucket: b}, store.Result{}
		fits := s.Judge(r, cost, now, 0)
		changed := s.Commit(r, cost, now, granted && fits)
		s.Answer(r, cost, &result)

		var reading Reading
		counted := b.Used(now)
		converted := b.Open(r, now, 0)
		if s.Bucket.Form != b.Form { // it counts more than r holds, and stays
			if holds := r.Integers.Whole / r.Integers.Unit; fits != (cost == 0) || changed || counted <= holds {
				t.Fatalf("decision %d, cost %d under %+v, of %d used: fits %v, changed %v", i, cost, r.Numbers, counted, fits, changed)
			}
			continue
		}
		b.Read(r, now, cost, &reading)
		wantFits := reading.fits(r, cost)
		if reading.Charged = granted && wantFits; reading.Charged && cost > 0 {
			b.charge(r, now, cost)
			b.Read(r, now, cost, &reading)
		}
		if wantChanged := converted || reading.Charged && cost > 0; fits != wantFits || changed != wantChanged {
			t.Fatalf("decision %d, cost %d under %+v: fits %v and changed %v, want %v and %v", i, cost, r.Numbers, fits, changed, wantFits, wantChanged)
		}
		if s.Bucket.Expires != b.Expires || s.Bucket.X != b.X || s.Bucket.Form != b.Form {
			t.Fatalf("decision %d, cost %d under %+v: bucket %+v, want %+v", i, cost, r.Numbers, s.Bucket, b)
		}
		if want := reading.Result(r, cost); result != want {
			t.Fatalf("decision %d, cost %d under %+v: result %+v, want %+v", i, cost, r.Numbers, result, want)
		}
		checkTokens(t, r, &result, &reading)
	}
}

// checkTokens checks a result against what would fit.
func checkTokens(t *testing.T, r *store.Rule, got *store.Result, reading *Reading) {
	t.Helper()
	if r.Wait > 0 || !got.Charged {
		return
	}
	for cost, want := range map[int64]bool{got.Remaining: true, got.Remaining + 1: got.Remaining+1 == 0} {
		if reading.fits(r, cost) != want && r.Burst == r.Whole {
			t.Fatalf("under %+v %d units remain, but that %d fit is %v", r.Numbers, got.Remaining, cost, !want)
		}
	}
	if b := *got; b.Allowed != b.Charged || b.Window <= 0 || b.RetryAfter != 0 || b.At != reading.At {
		t.Fatalf("under %+v: %+v", r.Numbers, b)
	}
}
