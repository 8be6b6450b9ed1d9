package counting

import "github.com/weblimit/weblimit/core/store"

// Offset returns the offset of key's windows from the epoch in microseconds: 0 without
// Jitter, otherwise a multiple of the tick below the window. It is the same in every
// process.
func Offset(r *store.Rule, key []byte) int64 {
	if !r.Jitter { // most rules; apart from the loop, so that this part is inlined
		return 0
	}
	return jitter(r, key)
}

func jitter(r *store.Rule, key []byte) int64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	// FNV alone leaves keys that differ in their last digits close together.
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int64(h>>11) % r.Integers.Unit * r.Integers.Tick
}
