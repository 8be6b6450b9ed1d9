package main

import (
	"io"
	"log/slog"
	"strings"
)

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
