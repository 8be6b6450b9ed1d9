package weblimitslog

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Messages of lines.
const (
	denied             = "weblimit: request denied"
	wouldBeDenied      = "weblimit: request would be denied"
	manyDenied         = "weblimit: requests denied"
	manyWouldBeDenied  = "weblimit: requests would be denied"
	maxLimits          = 1000
	otherLimits        = "other"
	attrLimit, attrKey = "limit", "key"
)

// Observer logs denied requests. Set it as Config.Observe of any number of limiters. It is safe
// for concurrent use.
type Observer struct {
	core.NopObserver

	config Config

	mu    sync.RWMutex
	lines map[subject]*sampler // Guarded by mu.
}

// subject is what has lines of its own.
type subject struct {
	limit  string // "" if no limit is the reason
	shadow bool
}

var _ core.Observer = (*Observer)(nil)

// Decided implements [core.Observer].
func (o *Observer) Decided(ctx context.Context, seen *core.Observation) {
	d := seen.Decision
	if d.Reason == core.ReasonWithinLimit || d.Reason == core.ReasonBypassed {
		return // else a limit in shadow mode would have made it another reason
	}
	if logger := o.logger(); logger.Enabled(ctx, o.config.Level.Level()) {
		o.decided(ctx, logger, seen)
	}
}

func (o *Observer) logger() *slog.Logger {
	if o.config.Logger != nil {
		return o.config.Logger
	}
	return slog.Default()
}

// decided logs a decision that is a denial, or would be one without shadow mode.
func (o *Observer) decided(ctx context.Context, logger *slog.Logger, seen *core.Observation) {
	d := seen.Decision
	if !d.Allowed {
		binding := -1
		if i, ok := seen.Binding(); ok {
			binding = i
		}
		o.log(ctx, logger, seen, denial{limit: seen.Limit(), result: binding, reason: d.Reason})
	}
	results := d.Results()
	for i := range results {
		if r := &results[i]; r.Shadow && !r.Allowed {
			o.log(ctx, logger, seen, denial{limit: r.Rule.Name, shadow: true, result: i, reason: r.DenialReason()})
		}
	}
}

// denial is what is logged: the decision, or what one limit in shadow mode says.
type denial struct {
	limit  string
	shadow bool
	result int // its place in the results, -1 if it has none
	reason core.Reason
}

// log writes a line, unless the limit had one a moment ago.
func (o *Observer) log(ctx context.Context, logger *slog.Logger, seen *core.Observation, d denial) {
	s := o.sampler(subject{d.limit, d.shadow})
	suppressed, written := s.denied()
	if !written {
		return
	}
	defer s.unlessDone(suppressed + 1)()
	message := denied
	if d.shadow {
		message = wouldBeDenied
	}
	logger.LogAttrs(ctx, o.config.Level.Level(), message, o.attrs(ctx, seen, d, suppressed)...)
}

// attrs returns the attributes of a line. Strings of the framework may alias a buffer that the
// handler could still read after the request, so that they are copied.
func (o *Observer) attrs(ctx context.Context, seen *core.Observation, d denial, suppressed int64) []slog.Attr {
	attrs := make([]slog.Attr, 0, 16)
	add := func(name, text string) {
		if text != "" {
			attrs = append(attrs, slog.String(name, text))
		}
	}
	retryAfter := seen.Decision.RetryAfter
	add(attrLimit, d.limit)
	add("class", seen.Decision.Class(d.limit))
	if d.result >= 0 {
		if r := &seen.Decision.Results()[d.result]; r.Standing != store.Undivided {
			add("standing", r.Standing.String())
		}
	}
	if d.shadow {
		attrs = append(attrs, slog.Bool("shadow", true))
		retryAfter = seen.Decision.Results()[d.result].RetryAfter
	}
	add("reason", d.reason.String())
	if d.result >= 0 {
		add(attrKey, o.key(ctx, seen.Key(d.result)))
		if cost := seen.Cost(d.result); cost > 1 {
			attrs = append(attrs, slog.Int64("cost", cost))
		}
	}
	if !d.shadow {
		add("missing", seen.Decision.Missing())
		add("ambiguous", seen.Decision.Ambiguous())
		if err := store.ErrorOf(seen.Decision.Err); err != nil {
			add("error", string(err.Class)) // its text is in the log by the store's events
		}
	}
	if retryAfter > 0 {
		attrs = append(attrs, slog.Duration("retry_after", retryAfter))
	}
	add("version", clean(seen.Decision.Version()))
	add("adapter", seen.Adapter)
	add("method", method(seen.Method))
	add("route", clean(seen.Route()))
	if o.config.Attrs != nil {
		for _, a := range o.config.Attrs(ctx) {
			if a.Value = a.Value.Resolve(); a.Value.Kind() == slog.KindString {
				a.Value = slog.StringValue(clean(a.Value.String()))
			}
			attrs = append(attrs, a)
		}
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int64("suppressed", suppressed))
	}
	return attrs
}

// sampler returns that of a subject. There are as many as limits; if an application makes up names of
// limits without end, further ones share one.
func (o *Observer) sampler(of subject) *sampler {
	o.mu.RLock()
	s := o.lines[of]
	o.mu.RUnlock()
	if s != nil {
		return s
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) >= maxLimits {
		of.limit = otherLimits
	}
	if s = o.lines[of]; s == nil {
		of.limit = strings.Clone(of.limit)
		s = &sampler{every: o.config.Every, write: func(n int64) { o.logMany(of, n) }}
		o.lines[of] = s
	}
	return s
}

// logMany writes a line for denials that no denial's line has counted.
func (o *Observer) logMany(of subject, suppressed int64) {
	ctx, message, attrs := context.Background(), manyDenied, make([]slog.Attr, 0, 3)
	if of.limit != "" {
		attrs = append(attrs, slog.String(attrLimit, of.limit))
	}
	if of.shadow {
		message = manyWouldBeDenied
		attrs = append(attrs, slog.Bool("shadow", true))
	}
	o.logger().LogAttrs(ctx, o.config.Level.Level(), message, append(attrs, slog.Int64("suppressed", suppressed))...)
}

// Flush writes a line for each limit with denials that no line has counted yet. Call it at
// shutdown, after the server has stopped. The observer can still be used.
func (o *Observer) Flush() {
	o.mu.RLock()
	all := make([]*sampler, 0, len(o.lines))
	for _, s := range o.lines {
		all = append(all, s)
	}
	o.mu.RUnlock()
	for _, s := range all {
		s.flush()
	}
}
