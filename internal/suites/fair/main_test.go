package fair

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

// short is how long clients ask unless -for says another time: a limit denies nothing before its burst is used up.
const short = 5 * time.Second

var duration = flag.Duration("for", short, "how long clients ask")

// aloneFor is how long light clients ask without the busy one. The short form has no use for what they took.
func aloneFor() time.Duration {
	if *duration > short {
		return *duration
	}
	return 2 * time.Second
}

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
