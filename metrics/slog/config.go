package weblimitslog

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"
)

// Config sets up an [Observer]. Its zero value is ready to use.
type Config struct {
	// Logger writes the lines. Its handler gets the context of the request. It is called within
	// requests, and from time to time without one. Defaults to slog.Default() at the time.
	Logger *slog.Logger

	// Level is that of all lines. Defaults to slog.LevelInfo: to deny is what a limit is for.
	Level slog.Leveler

	// Every is how often a limit gets a line. Defaults to a second.
	Every time.Duration

	// Attrs returns more attributes of a request, from what middleware has put into its context:
	// the tenant, the trace. Strings are escaped and cut as described above; other
	// values reach the handler as they are. It is called for each line. Defaults to none.
	Attrs func(context.Context) []slog.Attr

	// Key returns what is logged of a client, such as the customer's name or the key as it is,
	// instead of a hash. For "" the hash is logged. The key is as keyfuncs.Encode
	// writes it: "user:42". It may identify a person; API keys and other secrets in it are
	// hashed already. It is called for each line. Defaults to none.
	Key func(ctx context.Context, key string) string

	// Secret makes the hashes of keys, at least 16 bytes. Give all processes the same to find
	// a client in the logs of all of them: the hash is the first 16 hex digits of HMAC-SHA256 of
	// the key. Defaults to one of this process, made at random.
	Secret []byte
}

const (
	defaultEvery = time.Second
	minSecret    = 16
)

// New returns an observer. It fails for a negative Every and for a Secret that is too short.
func New(config Config) (*Observer, error) {
	switch {
	case config.Every < 0:
		return nil, fmt.Errorf("weblimit: slog.Config.Every must be above 0, got %v", config.Every)
	case config.Every == 0:
		config.Every = defaultEvery
	}
	switch {
	case config.Secret == nil:
		config.Secret = make([]byte, 32)
		_, _ = rand.Read(config.Secret) // never fails
	case len(config.Secret) < minSecret:
		return nil, fmt.Errorf("weblimit: slog.Config.Secret must have at least %d bytes, got %d", minSecret, len(config.Secret))
	default:
		config.Secret = bytes.Clone(config.Secret)
	}
	if config.Level == nil {
		config.Level = slog.LevelInfo
	}
	return &Observer{config: config, lines: make(map[subject]*sampler)}, nil
}

// Must returns the observer of [New], and panics if there was an error.
func Must(o *Observer, err error) *Observer {
	if err != nil {
		panic(err)
	}
	return o
}
