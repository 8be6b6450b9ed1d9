package xdssuite

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

func TestMain(m *testing.M) {
	wait.Beside(8) // most wait for servers
	os.Exit(redistest.Main(m))
}
