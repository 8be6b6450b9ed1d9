package bench

import (
	"slices"
	"testing"
)

func TestKeysAreDistinctAndOfOneLength(t *testing.T) {
	t.Parallel()
	keys := newKeys(1_000_000)
	for i, k := range keys[1:] {
		if k <= keys[i] { // in order, none can be there twice
			t.Fatalf("%q comes after %q", k, keys[i])
		}
		if len(k) != len(keys[0]) {
			t.Fatalf("%q and %q differ in length", k, keys[0])
		}
	}
	if !slices.Equal(keys[:100], newKeys(100)) {
		t.Error("another call made other keys")
	}
}

func picks(p *picker, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = p.pick()
	}
	return s
}

func TestPickerIsDeterministic(t *testing.T) {
	t.Parallel()
	keys := newKeys(1000)
	first := picks(newPicker(keys, 7), 1000)
	if !slices.Equal(first, picks(newPicker(keys, 7), 1000)) {
		t.Error("two pickers of one seed picked different keys")
	}
	if slices.Equal(first, picks(newPicker(keys, 8), 1000)) {
		t.Error("pickers of two seeds picked the same keys")
	}
}

// The statistic is Pearson's. With 999 degrees of freedom its mean is 999 and its standard
// deviation 45; the seeds are fixed, so the test can't fail by bad luck.
func TestPickerIsUniform(t *testing.T) {
	t.Parallel()
	const n, each = 1000, 100
	keys := newKeys(n)
	for seed := range uint64(8) {
		counts := map[string]int{}
		for _, k := range picks(newPicker(keys, seed), n*each) {
			counts[k]++
		}
		sum := 0.0
		for _, k := range keys {
			d := float64(counts[k] - each)
			sum += d * d / each
		}
		if sum < 800 || sum > 1200 {
			t.Errorf("seed %d: chi square %.0f, want about %d", seed, sum, n-1)
		}
	}
}

func TestPickerOfOneKey(t *testing.T) {
	t.Parallel()
	p := newPicker(newKeys(1), 1)
	for range 100 {
		if got := p.pick(); got != "user:0000000" {
			t.Fatal(got)
		}
	}
}
