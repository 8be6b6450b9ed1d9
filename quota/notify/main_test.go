package notify_test

import (
	"os"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

func TestMain(m *testing.M) {
	wait.Beside(8) // most wait for servers
	edge.AwayFromMonth(3 * time.Minute)
	os.Exit(pgtest.Main(m))
}
