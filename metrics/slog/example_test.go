package weblimitslog_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
)

type tenantKey struct{}

// Of a thousand denials in a second, the log gets two lines.
func ExampleNew() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	denials, err := weblimitslog.New(weblimitslog.Config{
		Logger: logger,
		Attrs: func(ctx context.Context) []slog.Attr {
			tenant, _ := ctx.Value(tenantKey{}).(string)
			return []slog.Attr{slog.String("tenant", tenant)}
		},
		Secret: []byte("a secret of all processes"),
	})
	if err != nil {
		panic(err)
	}
	limiter := core.Must(core.New(core.Config{
		Store:   core.NewMemory(),
		Limits:  []core.Limit{core.PerDay(10).By(keyfuncs.User("user")).Named("user")},
		Observe: denials,
	}))

	ctx := context.WithValue(context.Background(), tenantKey{}, "acme")
	for range 1010 {
		limiter.AllowKey(ctx, "user:42", 1)
	}
	denials.Flush() // at shutdown
	// Output:
	// level=INFO msg="weblimit: request denied" limit=user reason="limit exceeded" key=1a908f76ab261a54 tenant=acme
	// level=INFO msg="weblimit: requests denied" limit=user suppressed=999
}

// withoutTime leaves out what differs from run to run.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "retry_after" {
		return slog.Attr{}
	}
	return a
}
