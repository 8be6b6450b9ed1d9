package regions

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

var (
	duration = flag.Duration("for", 0, "how long to go through random sequences of faults")
	oneSeed  = flag.Uint64("seed", 0, "the seed; 0 takes one from the clock")
)

// worlds is how many worlds run at a time: they wait more than they work.
const worlds = 6

func TestMain(m *testing.M) {
	wait.Beside(worlds)
	os.Exit(redistest.Main(m))
}

// seed returns the seed of a run.
func seed() uint64 {
	if *oneSeed != 0 {
		return *oneSeed
	}
	return uint64(time.Now().UnixMicro()) % 1e9
}
