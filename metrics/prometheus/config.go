package prometheus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
)

// Config sets up an [Observer]. Its zero value is ready to use.
type Config struct {
	// Registerer is where the metrics are registered. Defaults to prometheus.DefaultRegisterer.
	Registerer prometheus.Registerer

	// Namespace begins the metrics' names: letters, digits, _ and :, and no digit first. The
	// dashboard and the alerts in deploy/ expect the default. Defaults to "weblimit".
	Namespace string

	// ConstLabels are labels that all metrics have. Their names are of letters, digits and _, and have no
	// digit first. Defaults to none.
	ConstLabels prometheus.Labels

	// MaxSeries bounds how many label sets of decisions_total one limit has. Decisions that would
	// need another one are counted with the route "other", and by series_capped_total.
	// Defaults to 1000.
	MaxSeries int

	// WithoutRoutes leaves the route label empty. Some routers take a moment to tell the
	// route. Defaults to false.
	WithoutRoutes bool

	// TraceID returns the trace of a request, in at most 64 letters, digits and dashes, or ""
	// for none. It becomes the exemplar "trace_id" of denials and of histograms, at most once a
	// second for each. Return "" for traces that are not sampled, since nobody can look them up.
	// It is called within requests, when an exemplar is due. Defaults to none.
	TraceID func(context.Context) string

	// TopDenied returns the most denials of any one client in the last minute, for the gauge
	// top_denied_per_minute: HighestDenials of metrics/top. It is called for each scrape.
	// Defaults to none.
	TopDenied func() float64
}

const (
	defaultNamespace = "weblimit"
	defaultMaxSeries = 1000
)

// Names that need no quotes in a query. Newer releases of client_golang take any UTF-8, with which the
// queries and rules in deploy/ could not name the metrics.
var (
	plainName  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	plainLabel = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// complete checks a Config and sets its defaults. The registerer checks what else there is to labels.
func (c Config) complete() (Config, error) {
	if c.MaxSeries < 0 {
		return c, fmt.Errorf("weblimit: prometheus.Config.MaxSeries must be at least 1, got %d", c.MaxSeries)
	}
	if c.MaxSeries == 0 {
		c.MaxSeries = defaultMaxSeries
	}
	if c.Namespace == "" {
		c.Namespace = defaultNamespace
	}
	if !plainName.MatchString(c.Namespace) {
		return c, fmt.Errorf("weblimit: prometheus.Config.Namespace must be letters, digits, _ and :, and no digit first, such as my_shop, got %q", c.Namespace)
	}
	for label := range c.ConstLabels {
		if !plainLabel.MatchString(label) {
			return c, fmt.Errorf("weblimit: prometheus.Config.ConstLabels: a label's name must be letters, digits and _, and no digit first, such as my_zone, got %q", label)
		}
	}
	c.ConstLabels = maps.Clone(c.ConstLabels)
	if c.Registerer == nil {
		c.Registerer = prometheus.DefaultRegisterer
	}
	return c, nil
}

// New returns an observer whose metrics are registered. It fails if a name or label is invalid,
// and if the registerer has an observer with this namespace and these labels already: one
// observer serves any number of limiters and stores.
func New(config Config) (*Observer, error) {
	c, err := config.complete()
	if err != nil {
		return nil, err
	}
	o := &Observer{config: c, metrics: newMetrics(c.Namespace, c.ConstLabels)}
	o.limits.Store(&map[string]*limitSeries{})
	if err := c.Registerer.Register(o); err != nil {
		var twice prometheus.AlreadyRegisteredError
		if errors.As(err, &twice) {
			return nil, fmt.Errorf("weblimit: prometheus: the registerer has these metrics already; share one observer, or give each another Namespace or ConstLabels: %w", err)
		}
		return nil, fmt.Errorf("weblimit: prometheus: %w", err)
	}
	return o, nil
}

// Must returns the observer of [New], and panics if there was an error.
func Must(o *Observer, err error) *Observer {
	if err != nil {
		panic(err)
	}
	return o
}
