package script

import (
	"strings"
	"testing"
)

// The script and this package write the same.
func TestTheHeadOfAHoldIsThatOfTheScript(t *testing.T) {
	t.Parallel()
	if strings.Count(Source, `'\255\255\255\255\255\255\31\48\52\64\66\15'`) != 1 {
		t.Errorf("the script knows another head than % x", HoldHead)
	}
	if got := int64(HoldHead[9]) | int64(HoldHead[10])<<8 | int64(HoldHead[11])<<16; got != HoldTime.Microseconds() {
		t.Errorf("the head says windows of %d, want %d", got, HoldTime.Microseconds())
	}
}
