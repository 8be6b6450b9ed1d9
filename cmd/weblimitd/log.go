package main

import (
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/settings"
)

// operation are the settings of the process: its drain, its log and its name.
type operation struct {
	drainDelay, drainTimeout settings.Duration
	readyInOutage            settings.Bool

	logFormat, logLevel settings.Choice
	logDenials          settings.Bool
	logSecret           settings.String
	instance            settings.String
}

func (o *operation) add(g settings.Group) {
	o.drainDelay = settings.Duration{Max: 10 * time.Minute}
	o.drainTimeout = settings.Duration{Min: 100 * time.Millisecond, Max: time.Hour}
	g.Add("drain-delay", &o.drainDelay, "5s", "how long to serve on after SIGTERM while not ready, so that load balancers notice")
	g.Add("drain-timeout", &o.drainTimeout, "20s", "how long requests under way may then take")
	g.Add("ready-in-outage", &o.readyInOutage, "true", "stay ready while the store is away, and decide by the policy's on_outage")
	o.logFormat, o.logLevel = settings.Choice{Of: []string{"text", "json"}}, settings.Choice{Of: []string{"debug", "info", "warn", "error"}}
	g.Add("log-format", &o.logFormat, "text", "text or json")
	g.Add("log-level", &o.logLevel, "info", "debug, info, warn or error")
	g.Add("log-denials", &o.logDenials, "true", "log denials, at most one line per limit and second")
	g.Secret("log-secret", &o.logSecret, "secret by which keys are hashed in the log, so that all instances log the same hash").Needs("log-denials")
	g.Add("instance", &o.instance, "", "name of this process on the page; by default the host's with random digits")
}

// newLogger returns the logger of the service.
func (o *options) newLogger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.logLevel.Word)) // one of four words
	options := &slog.HandlerOptions{Level: level}
	if o.logFormat.Word == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// serverLog passes on what net/http says, which may hold what a caller has sent: quoted, cut, and in
// a level that is off by default, since any port scanner can write it.
type serverLog struct {
	logger   *slog.Logger
	listener string
}

func (l serverLog) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	if len(text) > 512 {
		text = text[:512]
	}
	l.logger.Debug("weblimitd: server", "listener", l.listener, "message", text)
	return len(b), nil
}
