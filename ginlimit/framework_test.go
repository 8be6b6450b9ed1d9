package ginlimit_test

import (
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestFramework(t *testing.T) {
	t.Parallel()
	limittest.RunFramework(t, func(tb testing.TB, app limittest.App) limittest.Server {
		engine := gin.New()
		if err := engine.SetTrustedProxies(nil); err != nil {
			tb.Fatal(err)
		}
		return buildOn(engine, app)
	}, true)
}
