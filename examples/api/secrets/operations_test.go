package secrets

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
	"github.com/weblimit/weblimit/metrics/top"
)

// The code of docs/run/operations.md is here, since this module has all observers: TestBlocksAreCompiled
// of the examples looks for each block in these files.

func operationsPrometheus(r *gin.Engine, store core.Store, heavy *top.Tracker) *ginlimit.Settings {
	metrics, err := weblimitprom.New(weblimitprom.Config{TopDenied: heavy.HighestDenials})
	if err != nil {
		log.Fatal(err)
	}
	limits := ginlimit.With(core.Config{Store: store, Observe: core.Observers(metrics, heavy)})
	r.GET("/metrics", gin.WrapH(promhttp.HandlerFor(prometheus.DefaultGatherer, promhttp.HandlerOpts{EnableOpenMetrics: true})))
	return limits
}

func operationsExemplars() weblimitprom.Config {
	config := weblimitprom.Config{TraceID: func(ctx context.Context) string {
		if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
			return span.TraceID().String()
		}
		return ""
	}}
	return config
}

func operationsTop(store *redisstore.Store) (*ginlimit.Settings, func()) {
	heavy := top.New(top.Config{Exchange: store.Exchange()})
	limits := ginlimit.With(core.Config{Store: store, Observe: heavy})
	return limits, heavy.Close
}

func operationsOTel(store core.Store) *ginlimit.Settings {
	observer, err := weblimitotel.New(weblimitotel.Config{}) // the global providers
	if err != nil {
		log.Fatal(err)
	}
	limits := ginlimit.With(core.Config{Store: store, Observe: observer})
	return limits
}

func operationsLog(store core.Store, observer core.Observer, secretOfAllProcesses []byte) (*ginlimit.Settings, *weblimitslog.Observer) {
	denials, err := weblimitslog.New(weblimitslog.Config{
		Attrs:  func(ctx context.Context) []slog.Attr { return []slog.Attr{slog.String("tenant", tenantOf(ctx))} },
		Secret: secretOfAllProcesses, // 16 bytes or more
	})
	if err != nil {
		log.Fatal(err)
	}
	limits := ginlimit.With(core.Config{Store: store, Observe: core.Observers(observer, denials)})
	return limits, denials
}

func tenantOf(context.Context) string { return "acme" }

// What docs/run/operations.md shows runs as it stands there. Not parallel: it uses the default
// registry and the default log.
func TestOperationsCodeRuns(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	registerer, gatherer := prometheus.DefaultRegisterer, prometheus.DefaultGatherer
	defer func() { prometheus.DefaultRegisterer, prometheus.DefaultGatherer = registerer, gatherer }()
	registry := prometheus.NewRegistry()
	prometheus.DefaultRegisterer, prometheus.DefaultGatherer = registry, registry
	lines := new(child.Output)
	slog.SetDefault(slog.New(slog.NewTextHandler(lines, nil)))

	heavy := top.New(top.Config{})
	defer heavy.Close()
	onRedis, closeTop := operationsTop(redisstore.New(redistest.Start(t).Client(t)))
	defer closeTop()
	r := gin.New()
	logged, denials := operationsLog(core.NewMemory(), core.NopObserver{}, bytes.Repeat([]byte{1}, 16))
	for name, limits := range map[string]*ginlimit.Settings{
		"metered": operationsPrometheus(r, core.NewMemory(), heavy), "top": onRedis, "otel": operationsOTel(core.NewMemory()), "log": logged,
	} {
		r.GET("/"+name, limits.Limit(core.PerHour(1).By(keyfuncs.Everyone()).Named(name)))
	}
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w
	}
	for _, path := range []string{"/metered", "/top", "/otel", "/log"} {
		codes := []int{get(path).Code}
		for len(codes) < 4 && codes[len(codes)-1] == 200 { // a Redis that is late on a busy machine lets one pass
			codes = append(codes, get(path).Code)
		}
		if codes[0] != 200 || codes[len(codes)-1] != 429 {
			t.Errorf("%s: %v", path, codes)
		}
	}
	if page := get("/metrics").Body.String(); !strings.Contains(page, "weblimit_top_denied_per_minute") || !strings.Contains(page, `limit="metered"`) {
		t.Errorf("the metrics are\n%s", page)
	}
	denials.Flush()
	if text := lines.String(); !strings.Contains(text, "limit=log") || !strings.Contains(text, "tenant=acme") {
		t.Errorf("the log is\n%s", text)
	}
	check.Equal(t, "a request without a span has the trace", operationsExemplars().TraceID(t.Context()), "")
}
