package weblimitslog_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
)

// raw is a handler that writes values as they are.
type raw struct{ out *strings.Builder }

func (raw) Enabled(context.Context, slog.Level) bool { return true }
func (r raw) WithAttrs([]slog.Attr) slog.Handler     { return r }
func (r raw) WithGroup(string) slog.Handler          { return r }

func (r raw) Handle(_ context.Context, record slog.Record) error {
	r.out.WriteString(record.Message)
	record.Attrs(func(a slog.Attr) bool {
		r.out.WriteString(" " + a.Key + "=" + a.Value.String())
		return true
	})
	r.out.WriteByte('\n')
	return nil
}

// What a client chooses ends no line and moves no cursor, even if the handler writes it as it is.
func TestClientsInjectNothing(t *testing.T) {
	t.Parallel()
	for name, evil := range map[string]string{
		"a line break":          "x\nlevel=INFO msg=\"weblimit: request allowed\"",
		"a carriage return":     "x\r\rlevel=INFO",
		"an escape sequence":    "x\x1b[2J\x1b[31mx",
		"C1 control characters": "x\u009b2Jx",
		"reversed text":         "x\u202egnp.exe",
		"a line separator":      "x\u2028y\u2029",
		"no UTF-8":              "x\xff\xfe\x80",
		"NUL":                   "x\x00",
		"a megabyte":            strings.Repeat("é", 1<<19),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			o := newObserver(t, weblimitslog.Config{
				Logger: slog.New(raw{&out}),
				Key:    func(context.Context, string) string { return evil },
				Attrs: func(context.Context) []slog.Attr {
					return []slog.Attr{slog.String("tenant", evil), slog.Any("valuer", valuer(evil))}
				},
			})
			l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerHour(1).By(everyone).Named("user")}})
			for range 2 {
				adapter.New(l, "gin").Decide(&request{keyfuncs.Values{}, t.Context(), evil, evil}, new(adapter.Context), nil)
			}
			line := strings.TrimSuffix(out.String(), "\n")
			for _, r := range line {
				if r == '\uFFFD' || r < ' ' || r >= 0x7f && r < 0xa0 || strings.ContainsRune("\u202e\u2028\u2029", r) {
					t.Fatalf("logged %q", line)
				}
			}
			if len(line) > 4096 || !strings.Contains(line, "method=other") {
				t.Errorf("logged %d bytes: %.300s", len(line), line)
			}
		})
	}
}

type valuer string

func (v valuer) LogValue() slog.Value { return slog.StringValue(string(v)) }

// Applications that make up names of limits without end do not grow memory without end.
func TestLimitsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out log
		o := newObserver(t, weblimitslog.Config{Logger: out.logger()})
		for i := range 1100 {
			l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerHour(1).By(everyone).Named(fmt.Sprint("tenant-", i))}})
			l.AllowKey(t.Context(), "k", 1)
			l.AllowKey(t.Context(), "k", 1)
		}
		o.Flush()
		lines := out.lines()
		if last := lines[len(lines)-1]; len(lines) != 1002 || !strings.HasSuffix(last, "limit=other suppressed=99") {
			t.Errorf("%d lines, the last: %s", len(lines), last)
		}
	})
}

// panicking is a handler that panics until it is mended.
type panicking struct {
	slog.Handler
	broken *atomic.Bool
}

func (p panicking) Handle(ctx context.Context, r slog.Record) error {
	if p.broken.Load() {
		panic("no disk")
	}
	return p.Handler.Handle(ctx, r)
}

// A panic of the application's handler or functions loses no denial, and ends no process.
func TestPanicsLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out log
		var broken atomic.Bool
		broken.Store(true)
		o := newObserver(t, weblimitslog.Config{Logger: slog.New(panicking{out.logger().Handler(), &broken})})
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), Observe: o, Silence: []core.Advice{"WL009"},
			Limits: []core.Limit{core.PerHour(1).By(everyone).Named("user")},
		})
		for range 5 {
			l.AllowKey(t.Context(), "k", 1)
		}
		time.Sleep(time.Minute)
		out.want(t, "")
		broken.Store(false)
		l.AllowKey(t.Context(), "k", 1)
		if got := out.lines()[0]; !strings.HasSuffix(got, " suppressed=4") {
			t.Errorf("logged %s", got)
		}
	})
}

// Lines that nobody wants cost and keep nothing.
func TestDisabledLevel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out log
		o := newObserver(t, weblimitslog.Config{Logger: out.logger(), Level: slog.LevelDebug})
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerHour(1).By(everyone).Named("user")}})
		for range 5 {
			l.AllowKey(t.Context(), "k", 1)
		}
		time.Sleep(time.Minute)
		o.Flush()
		out.want(t, "")
	})
}
