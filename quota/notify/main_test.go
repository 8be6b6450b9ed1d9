package notify_test

import (
	"os"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

func TestMain(m *testing.M) {
	edge.AwayFromMonth(3 * time.Minute)
	os.Exit(pgtest.Main(m))
}
