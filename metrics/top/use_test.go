package top

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
)

const anyTime = tick(17_000_000_000) / period * period

// usage notes the use of a client, as a limit does.
func usage(samples *[shards]sample, s secret, client uint64, now, length tick, use int64) {
	hash := s.hash(keyOf(nil, client))
	samples[hash%shards].note(hash, now, length, use)
}

func TestUseIsThatOfTheBusiestWindow(t *testing.T) {
	t.Parallel()
	var samples [shards]sample
	s := secret{1, 2}
	for second, use := range []int64{3, 4, 0, 9, 1} {
		for range use {
			usage(&samples, s, 1, anyTime+tick(second)*minute, minute, 1)
		}
		usage(&samples, s, 2, anyTime+tick(second)*minute, minute, 2)
		usage(&samples, s, 3, anyTime+tick(second)*minute, 0, use)
	}
	u := useOf(samples[:], 10)
	check.All(t, "peaks and clients", []any{u.Peaks, u.Clients}, "[2 9 9]", 3)
	// After a day without requests, clients are forgotten.
	usage(&samples, s, 4, anyTime+period, minute, 1)
	check.Equal(t, "clients in the next period", useOf(samples[:], 10).Clients, 4)
	for client := range uint64(200) { // in all shards
		usage(&samples, s, 4+client, anyTime+2*period, minute, 1)
	}
	check.Equal(t, "clients two periods later", useOf(samples[:], 1000).Clients, 200)
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	var u Use
	if s, ok := u.Suggest(0.5); ok || u.Share(0) != 1 {
		t.Errorf("without clients: %+v", s)
	}
	for i := range uint64(1000) {
		u.ids, u.sizes = append(u.ids, i+1), append(u.sizes, int64(1000-i))
	}
	u.sumUp()
	for share, want := range map[float64]int64{0: 1, 0.5: 500, 0.995: 995, 0.9951: 996, 1: 1000} {
		s, ok := u.Suggest(share)
		check.All(t, fmt.Sprint(share, " of 1,000 clients"), []any{ok, s.Quota, s.Low, s.High, s.Clients, s.Sampled}, true, want, want, want, 1000, 1000)
		if got := u.Share(want); got < share || got > share+0.0011 {
			t.Errorf("%d is enough for %v of the clients, want %v", want, got, share)
		}
	}
	for _, share := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if s, ok := u.Suggest(share); ok {
			t.Errorf("%v of the clients: %+v", share, s)
		}
	}
}

// Of more clients than a sample has room for, quantiles are where they are said to be.
func TestSuggestFromASample(t *testing.T) {
	t.Parallel()
	const clients = 200_000
	within, all := 0, 0
	for seed := range long.Rounds(uint64(4), 10) {
		random := rand.New(rand.NewPCG(seed, 1))
		var samples [shards]sample
		var exact []int64
		for client := range uint64(clients) {
			use := int64(math.Exp(random.NormFloat64()*1.5 + 3)) // log-normal: 20 on average, 600 at 99 %
			exact = append(exact, use)
			usage(&samples, secret{seed, 2}, client, anyTime, minute, use)
		}
		slices.Sort(exact)
		u := useOf(samples[:], shards*sampleSize)
		if n := len(u.Peaks); n < 500 || n > shards*sampleSize {
			t.Errorf("%d of %d clients are in the sample", n, clients)
		}
		if off := math.Abs(float64(u.Clients)/clients - 1); off > 0.15 {
			t.Errorf("%d clients, want %d", u.Clients, clients)
		}
		for _, share := range []float64{0.5, 0.9, 0.95, 0.99} {
			s, _ := u.Suggest(share)
			want := exact[int(share*clients)]
			all++
			if s.Low <= want && want <= s.High {
				within++
			}
			if rank := u.rankOf(exact, s.Quota); math.Abs(rank-share) > 4*math.Sqrt(share*(1-share)/float64(s.Sampled)) {
				t.Errorf("%v of the clients: %d, which %v stay within", share, s.Quota, rank)
			}
		}
	}
	if within < all*85/100 {
		t.Errorf("%d of %d numbers are between Low and High, want 95 %%", within, all)
	}
}

func (*Use) rankOf(exact []int64, quota int64) float64 {
	n, _ := slices.BinarySearch(exact, quota+1)
	return float64(n) / float64(len(exact))
}

// Instances choose the same clients, so that the use of each is added up over all, even if one
// of them has to choose fewer.
func TestUseOverInstances(t *testing.T) {
	t.Parallel()
	const clients = 20_000
	var instances [3][shards]sample
	for client := range uint64(clients) {
		for i := range instances {
			if i == 2 && client >= 1000 {
				continue // it sees few clients, and has all of them in its sample
			}
			usage(&instances[i], secret{1, 2}, client, anyTime, minute, int64(1+client%10))
		}
	}
	var snapshots []*Snapshot
	for i := range instances {
		u := useOf(instances[i][:], 500)
		u.Window = time.Minute
		snapshots = append(snapshots, &Snapshot{Limits: []Limit{{Name: "api", Use: u}}})
	}
	u := Merge(snapshots...).Limits[0].Use
	if n := len(u.Peaks); n < 200 || n > 500 || math.Abs(float64(u.Clients)/clients-1) > 0.2 {
		t.Errorf("%d clients, of which %d are in the sample; want %d", u.Clients, n, clients)
	}
	if s, _ := u.Suggest(0.5); s.Quota < 8 || s.Quota > 14 {
		t.Errorf("half of the clients use up to %d, want some 10 to 12 over two or three instances", s.Quota)
	}
	other := Use{ids: []uint64{5}, sizes: []int64{1_000_000}, group: 7}
	other.sumUp()
	snapshots = append(snapshots, &Snapshot{Limits: []Limit{{Name: "api", Use: other}}})
	check.Equal(t, "the sample with an instance that has not agreed yet", len(Merge(snapshots...).Limits[0].Use.Peaks), len(u.Peaks))
}

// Of slots and calendar windows the store knows the use over all instances.
func TestUseThatTheStoreKnows(t *testing.T) {
	t.Parallel()
	for _, limit := range []core.Limit{core.Concurrent(10), core.PerMonth(10, time.UTC), core.Per(10, 72*time.Hour)} {
		rule := must.Get(limit.Rule())(t)
		l := newLimit(rule.Name, rule.ID(), 256, secret{})
		for _, remaining := range []int64{7, 2, 5} {
			l.note(&decision{LimitResult: &core.LimitResult{Rule: &rule, Result: core.Result{Allowed: true, Remaining: remaining}}, key: []byte("user:1"), cost: 1}, 1<<40, anyTime)
		}
		l.note(&decision{LimitResult: &core.LimitResult{Rule: &rule, Result: core.Result{Remaining: 3}}, key: []byte("user:2"), cost: 5}, 2<<40, anyTime)
		one := l.snapshot(anyTime, 10, 10)
		both := Merge(&Snapshot{Limits: []Limit{one}}, &Snapshot{Limits: []Limit{one}})
		for _, u := range []Use{one.Use, both.Limits[0].Use} {
			check.Equal(t, fmt.Sprintf("%s: used by one, and wanted by another", rule.Algorithm), fmt.Sprint(u.Peaks), "[8 12]")
		}
	}
}

// Samples of two secrets are not one, however much of what tells the secrets apart is equal.
func TestSamplesOfTwoSecretsStayApart(t *testing.T) {
	t.Parallel()
	first, second := secret{1, 2}.group(), secret{1, 3}.group()
	for _, other := range []uint64{first ^ 1, first ^ 1<<63, first ^ 0xffffffff, second} {
		var snapshots []*Snapshot
		for i, group := range []uint64{first, other} {
			use := Use{ids: []uint64{5, 7 + uint64(i)}, sizes: []int64{3, 4}, group: group}
			use.sumUp()
			at := Instance{Name: fmt.Sprint("web-", i), At: time.UnixMilli(1_700_000_000_000)}
			s := &Snapshot{Instances: []Instance{at}, Limits: []Limit{{Name: "api", Algorithm: store.TokenBucket, Quota: 1, Burst: 1, Window: time.Hour, Use: use}}}
			var read Snapshot
			must.OK(t, read.UnmarshalBinary(must.Get(s.MarshalBinary())(t)))
			snapshots = append(snapshots, &read)
		}
		check.Equal(t, fmt.Sprintf("the groups %x and %x", first, other), len(Merge(snapshots...).Limits[0].Use.Peaks), 2)
	}
}
