package xdssuite

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/wait"
)

func TestMain(m *testing.M) {
	wait.Beside(8) // most wait for servers
	m.Run()
}
