package notify_test

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runChild()
		return
	}
	os.Exit(pgtest.Main(m))
}
