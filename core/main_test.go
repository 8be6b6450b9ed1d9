package core_test

import (
	"os"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/edge"
)

func TestMain(m *testing.M) {
	edge.AwayFrom(time.Hour, time.Minute) // which fixed windows, days and months end with
	os.Exit(m.Run())
}
