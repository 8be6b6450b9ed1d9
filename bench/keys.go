package bench

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// newKeys returns n distinct keys of one length, the same in every run.
func newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%07d", i)
	}
	return keys
}

// picker picks keys, each as likely as any other. Two pickers of one seed pick the same. It
// is not safe for concurrent use: each goroutine has its own.
type picker struct {
	keys   []string
	source rand.PCG
}

func newPicker(keys []string, seed uint64) *picker {
	return &picker{keys, *rand.NewPCG(seed, 0x9e3779b97f4a7c15)}
}

// pick returns the next key. It takes some 2 ns, even with one key, so scenarios with one key
// and with many differ in the limiter alone.
func (p *picker) pick() string {
	// The upper half of a 128-bit product, which spares a division. The bias is n/2^64.
	i, _ := bits.Mul64(p.source.Uint64(), uint64(len(p.keys)))
	return p.keys[i]
}
