package fair

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

var duration = flag.Duration("for", 5*time.Second, "how long clients ask")

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
