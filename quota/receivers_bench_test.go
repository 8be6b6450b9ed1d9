package quota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/quota/internal/delivery"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// BenchmarkExportPass does a pass over 10,000 accounts of PostgreSQL: one in which each has an
// increment, and one in which none has.
func BenchmarkExportPass(b *testing.B) {
	const accounts = 10_000
	l := pgledger.New(poolOf(b), "weblimit", defaultLevels)
	if err := l.SetUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := l.OpenExport(b.Context(), "billing", beginning); err != nil {
		b.Fatal(err)
	}
	export := Export{Name: "billing", Batch: maxBatch, Timeout: time.Minute, Send: func(context.Context, []Increment) error { return nil }}
	s := delivery.NewSender(&delivery.Desk{Timeout: time.Minute, Ledger: l}, export.receiver())
	for _, changed := range []bool{true, false} {
		b.Run(fmt.Sprint("changed=", changed), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				var all []ledger.Position
				for i := range accounts {
					a := month("plan", fmt.Sprintf("tenant:%d", i), time.November)
					all = append(all, at(a, 1, time.Now().UnixMilli()&(1<<36-1), int64(n+1), int64(n*24*3600%(28*24*3600))))
				}
				if changed {
					if err := l.Flush(b.Context(), all); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				p := &ledger.Pass{Name: export.Name, Process: "one", Lease: time.Minute}
				if ok, err := l.BeginPass(b.Context(), p); !ok || err != nil {
					b.Fatal(ok, err)
				}
				p.Whole = false
				if refused, err := s.Walk(b.Context(), b.Context(), p); err != nil || refused != 0 {
					b.Fatal(err)
				}
				if err := l.EndPass(b.Context(), p, true, 0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*accounts/b.Elapsed().Seconds(), "accounts/s")
		})
	}
}

// BenchmarkClaim is what PostgreSQL does for one notice beside the flush: claim and settle, 16 at
// a time.
func BenchmarkClaim(b *testing.B) {
	l := pgledger.New(poolOf(b), "weblimit", defaultLevels)
	if err := l.SetUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := l.OpenChannels(b.Context(), []string{"mail"}); err != nil {
		b.Fatal(err)
	}
	var made, done int
	for b.Loop() {
		if made == done {
			b.StopTimer()
			var all []ledger.Position
			for range 2000 {
				made++
				all = append(all, reached(month("plan", fmt.Sprintf("tenant:%d", made), time.November), 1, 1))
			}
			if err := l.Flush(b.Context(), all); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		claimed, err := l.Claim(b.Context(), "mail", false, []string{}, 16, time.Minute)
		if err != nil || len(claimed) == 0 {
			b.Fatal(len(claimed), err)
		}
		for i := range claimed {
			if err := l.Settle(b.Context(), &claimed[i], &ledger.Settlement{Verdict: ledger.Delivered}); err != nil {
				b.Fatal(err)
			}
			done++
		}
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "notices/s")
}
