package adversary

import (
	"os"
	"testing"

	"github.com/gin-gonic/gin"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	os.Exit(m.Run())
}

func TestRawRequests(t *testing.T) {
	t.Parallel()
	Requests(t, attacked)
}

func TestRawFrames(t *testing.T) {
	t.Parallel()
	Frames(t, attacked)
}
