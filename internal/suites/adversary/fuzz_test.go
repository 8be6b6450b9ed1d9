package adversary

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The fuzzer chooses the bytes, and with which the framework, the limits, the peer, and the
// number of pieces in which the bytes arrive.

func FuzzRawHTTP1(f *testing.F) {
	for seed := range uint64(40) {
		s := &source{Rand: rand.New(rand.NewPCG(seed, 2)), setup: &setups[seed%uint64(len(setups))]}
		f.Add(s.stream(), seed*0x9e3779b9)
	}
	fuzz(f, attacked, func(*attack) {})
}

func FuzzRawHTTP2(f *testing.F) {
	for seed := range uint64(40) {
		_, a := newAttack2(seed, overHTTP2(attacked))
		f.Add(a.raw, seed*0x9e3779b9)
	}
	fuzz(f, overHTTP2(attacked), func(a *attack) { a.http2, a.patience = true, time.Second })
}

func fuzz(f *testing.F, on []*Framework, prepare func(*attack)) {
	all := sites{} // the fuzzer makes one call at a time
	f.Cleanup(all.close)
	f.Fuzz(func(t *testing.T, raw []byte, which uint64) {
		if len(raw) > 64<<10 {
			return
		}
		r := rand.New(rand.NewPCG(which, 3))
		framework := on[r.IntN(len(on))]
		a := &attack{raw: raw, setup: &setups[r.IntN(len(setups))], peer: peers[r.IntN(len(peers))], pieces: 1 + r.IntN(3), seed: which}
		prepare(a)
		if _, w := all.suffer(framework, a); w != nil {
			all.report(t, framework, a, w, "of the fuzzer")
		}
	})
}
