package envoy

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/policy"
)

// Config sets up a [Server]. Beside each field stands the variable of envoyproxy/ratelimit that it
// replaces, if there is one.
type Config struct {
	// Source has the files, such as Directory("config"). Required. (RUNTIME_ROOT,
	// RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY)
	Source Source

	// AllowEmpty takes a source that has no files as one without limits: every request is answered OK,
	// which is logged. A control plane has none while there are no policies. Defaults to false: no
	// files are an error, as of a folder that was not mounted.
	AllowEmpty bool

	// StartWithout has New succeed where the files can't be read or are refused. Until there are good
	// ones every request is answered OK; it is logged, and [Status.Err] has the reason. Defaults to
	// false. (FORCE_START_WITHOUT_INITIAL_CONFIG)
	StartWithout bool

	// UnhealthyWithout has health checks fail while no file has a domain. Defaults to false.
	// (HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED)
	UnhealthyWithout bool

	// Store counts. Required. (BACKEND_TYPE, REDIS_URL and others)
	Store core.Store

	// Observe hears of every decision, and Logger of files that are taken or refused. They default
	// to none and to slog.Default().
	Observe core.Observer
	Logger  *slog.Logger

	// Silence switches off advice of these kinds. Defaults to none.
	Silence []core.Advice

	// Timeout is how long the store may take. A request whose caller has a shorter deadline gets
	// less, so that the answer comes in time. Defaults to 100ms.
	Timeout time.Duration

	// OnOutage says what is answered while the store does not answer. core.Local has each process
	// grant its share, a Replicas-th of each limit. core.Allow answers OK. core.Deny is an error of
	// code Unavailable, as of envoyproxy/ratelimit: then failure_mode_deny of Envoy decides. Limits
	// in shadow mode allow in any case. Defaults to core.Local.
	OnOutage core.OutageAction
	Replicas int // how many processes share the store; defaults to 1

	// Independent charges each descriptor by itself, whatever the others say, as
	// envoyproxy/ratelimit does. Defaults to false: a request that one descriptor denies is charged
	// to none.
	Independent bool

	// Overdraw says which units are charged although the request is denied. Defaults to
	// OverdrawStated.
	Overdraw Overdraw

	// Algorithm is how limits count, and Algorithms how those of single domains do; a domain that no file has
	// is logged. A file can say it itself, by a comment such as "# weblimit: sliding_window". Defaults to
	// FixedWindow.
	Algorithm  Algorithm
	Algorithms map[string]Algorithm

	// EndMark refuses files in YAML whose last line is not "...", which is how YAML marks the end of a
	// document. A file that is written slowly, and not replaced as a whole, may otherwise be taken while
	// its end is missing: cut off behind a line it is valid, and has fewer limits. JSON needs no mark.
	// Defaults to false.
	EndMark bool

	// MergeDomains lets several files have limits of one domain. Defaults to false.
	// (MERGE_DOMAIN_CONFIG)
	MergeDomains bool

	// Shadow answers OK to every request, whatever its descriptors say. Defaults to false.
	// (SHADOW_MODE)
	Shadow bool

	// Quota has all limits in quota mode: a request is denied if all of its descriptors are over
	// their limits. Defaults to false. (QUOTA_MODE)
	Quota bool

	// LimitHeaders has responses carry the limit with the fewest requests remaining, in fields of
	// these names. Defaults to none. (LIMIT_RESPONSE_HEADERS_ENABLED)
	LimitHeaders *LimitHeaders

	// Headers has responses carry fields of the IETF's drafts and others, as weblimit's middleware
	// does, and Retry-After. The names of limits are made of domain, keys and configured values,
	// and clients read them. Defaults to 0: none.
	Headers core.Headers

	// DynamicMetadata has responses carry the request's descriptors and the metadata of limits that
	// it passed. Defaults to false. (RESPONSE_DYNAMIC_METADATA)
	DynamicMetadata bool

	// NearLimit is the part of a limit above which hits count as near the limit in statistics.
	// Defaults to 0.8. (NEAR_LIMIT_RATIO)
	NearLimit float64

	// MaxDescriptors and MaxEntries bound the descriptors of a request, and the entries of one.
	// Beyond it, the request is an error. Default to 100 and 50.
	MaxDescriptors, MaxEntries int

	// MaxSeries bounds the names that statistics have. Of further ones, as detailed_metric can
	// make, statistics know nothing but their sum. Defaults to 10,000.
	MaxSeries int
}

// Overdraw says which units are charged where they do not fit, and use up what is left. That holds for
// limits in shadow mode, too, and for quotas that deny nothing since another has room.
type Overdraw uint8

const (
	// OverdrawStated charges units that a descriptor states itself, in its own hits_addend. That is
	// how Envoy reports what a response has cost, at the end of the stream: such units are spent,
	// and a limit that did not count them would never be used up.
	OverdrawStated Overdraw = iota
	// OverdrawNever charges nothing where hits do not fit.
	OverdrawNever
	// OverdrawAlways charges every descriptor, as envoyproxy/ratelimit does: a request
	// for 10 units where 9 are left leaves none.
	OverdrawAlways
)

// LimitHeaders are the names of response headers. Each defaults to that of envoyproxy/ratelimit.
type LimitHeaders struct {
	Limit     string // requests per unit; defaults to RateLimit-Limit (LIMIT_LIMIT_HEADER)
	Remaining string // requests remaining; defaults to RateLimit-Remaining (LIMIT_REMAINING_HEADER)
	Reset     string // seconds until the limit is whole again; defaults to RateLimit-Reset (LIMIT_RESET_HEADER)
}

// validate refuses names that are none of headers, and one name twice.
func (h *LimitHeaders) validate() error {
	seen := make(map[string]bool, 3)
	for _, name := range []string{h.Limit, h.Remaining, h.Reset} {
		if !fieldName.MatchString(name) {
			return fmt.Errorf("weblimit: envoy: Config.LimitHeaders: %q is no name of a header", name)
		}
		lower := strings.ToLower(name)
		if seen[lower] {
			return fmt.Errorf("weblimit: envoy: Config.LimitHeaders: two of the names are %q", name)
		}
		seen[lower] = true
	}
	return nil
}

// fieldName is a token of RFC 9110.
var fieldName = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]{1,256}$")

// mostDescriptors is the most that a store can decide at once.
const mostDescriptors = 255

// complete checks the configuration and sets defaults.
func (c *Config) complete() error {
	setDefault(&c.MaxDescriptors, 100)
	setDefault(&c.MaxEntries, 50)
	setDefault(&c.MaxSeries, 10_000)
	if c.NearLimit == 0 {
		c.NearLimit = 0.8
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.LimitHeaders != nil {
		names := *c.LimitHeaders
		setDefault(&names.Limit, "RateLimit-Limit")
		setDefault(&names.Remaining, "RateLimit-Remaining")
		setDefault(&names.Reset, "RateLimit-Reset")
		c.LimitHeaders = &names
		if err := names.validate(); err != nil {
			return err
		}
	}
	c.Algorithms, c.Silence = maps.Clone(c.Algorithms), slices.Clone(c.Silence) // each reload reads them
	for domain, a := range c.Algorithms {
		if int(a) >= len(algorithms) {
			return fmt.Errorf("weblimit: envoy: Config.Algorithms of %q is unknown", domain)
		}
	}
	switch {
	case c.Source == nil:
		return errors.New("weblimit: envoy: Config.Source is missing")
	case c.Store == nil:
		return errors.New("weblimit: envoy: Config.Store is missing")
	case int(c.Algorithm) >= len(algorithms):
		return errors.New("weblimit: envoy: Config.Algorithm is unknown")
	case c.Overdraw > OverdrawAlways:
		return errors.New("weblimit: envoy: Config.Overdraw is unknown")
	case !(c.NearLimit > 0 && c.NearLimit <= 1):
		return fmt.Errorf("weblimit: envoy: Config.NearLimit must be above 0 and at most 1, got %v", c.NearLimit)
	case c.MaxDescriptors < 1 || c.MaxDescriptors > mostDescriptors:
		return fmt.Errorf("weblimit: envoy: Config.MaxDescriptors must be from 1 to %d, got %d", mostDescriptors, c.MaxDescriptors)
	case c.MaxEntries < 1:
		return fmt.Errorf("weblimit: envoy: Config.MaxEntries must be at least 1, got %d", c.MaxEntries)
	case c.MaxSeries < 1:
		return fmt.Errorf("weblimit: envoy: Config.MaxSeries must be at least 1, got %d", c.MaxSeries)
	}
	return nil
}

// Validate returns what is wrong with a file, as an [*Error], or with the configuration. It needs no Source and no Store:
//
//	release, err := policy.Publish(ctx, redissource.New(client, "edge"), file, policy.Publication{Validate: envoy.Config{}.Validate})
func (c Config) Validate(file policy.File) error {
	c.Source, c.Store, c.Observe, c.Logger = Files(file), core.NewMemory(), nil, slog.New(slog.DiscardHandler)
	c.StartWithout = false // or nothing would be refused
	_, err := New(c)
	return err
}

func setDefault[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

// core returns the configuration of the limiter.
func (c *Config) core(limits []core.Limit, version string) core.Config {
	return core.Config{
		Store: c.Store, Limits: limits, Timeout: c.Timeout, Replicas: c.Replicas, Headers: c.Headers,
		Observe: c.Observe, Logger: c.Logger, Silence: c.Silence, Version: version,
	}
}
