package script

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// A block is found among records of other kinds, and what is cut short holds none.
func TestBlocksInAValue(t *testing.T) {
	t.Parallel()
	const (
		bucket  = "\x01\x00\x00\x00\x00\x00\x00\x10\x10\x05" + "\x09\x00\x00\x00\x00\x00\x00"
		log     = "\x02\x00\x00\x00\x00\x00\x00\x40\x10\x05" + "\x09\x00\x00\x00\x00\x00\x00" + "\x01\x00\x01\x00" + "\x08\x00\x00\x00\x00\x00\x00" + "\x01\x00"
		penalty = "\x03\x00\x00\x00\x00\x00\x00\x60\x00" + "\x09\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00" + "\x07\x01\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00" + "\x04\x00"
		window  = "\x05\x00\x00\x00\x00\x00\x00\x30\x14\x05" + "\x09\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00" + "\x02\x00\x00\x00"
		account = "\x02\x01\x00\x00\x00\x00\x00\x90\x1e\x05" + "\x09\x00\x00\x00\x00\x00\x00" + "\x60\x60\x60\x00\x00\x00\x00" + "\x01\x00\x00\x00\x10\x00\x00"
		value   = "\x02" + bucket + account + log + penalty + window
	)
	want := []Block{{Limit: 3, Until: 0x107, Level: 4}}
	check.Slices(t, "BlocksIn(value, 0x106)", BlocksIn(value, 0x106), want)
	if got := BlocksIn(value, 0x107); len(got) != 0 {
		t.Errorf("over by now: %+v", got)
	}
	if got := BlocksIn("\x01"+value[1:], 0); len(got) != 0 {
		t.Errorf("of another version: %+v", got)
	}
	for n := range value {
		if got := BlocksIn(value[:n], 0x106); len(got) > 1 || len(got) == 1 && got[0] != want[0] {
			t.Errorf("cut short after %d bytes: %+v", n, got)
		}
	}
}

// Anything may be stored under the prefix, and a listing must not panic over it.
func FuzzBlocksIn(f *testing.F) {
	f.Add("\x02\x03\x00\x00\x00\x00\x00\x00\x60\x00")
	f.Add("\x01\x02\x00\x00\x00\x00\x00\x00\x40\x10\x05\x09\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, value string) {
		if n := len(BlocksIn(value, 0)); n > len(value)/(recordHead+penaltyState) {
			t.Errorf("%d blocks in %d bytes", n, len(value))
		}
	})
}
