package ginlimit_test

import (
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestFramework(t *testing.T) {
	t.Parallel()
	limittest.RunFramework(t, func(tb testing.TB, app limittest.App) limittest.Server {
		engine := gin.New()
		must.OK(tb, engine.SetTrustedProxies(nil))
		return buildOn(engine, app)
	}, true)
}
