package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/systemd"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/settings"
)

// followEvery is how often files of certificates, tokens, secrets and operators are read.
const followEvery = 5 * time.Second

// errEndedAtOnce is what a second signal leads to.
var errEndedAtOnce = errors.New("ended at once by a second signal: requests under way were cut off")

// run serves until a signal comes.
func (s *daemon) run(ctx context.Context, signals <-chan os.Signal, passed *systemd.Sockets, notify *systemd.Notifier) error {
	defer s.close()
	s.health.alive()
	if err := s.openListeners(ctx, passed); err != nil {
		return err
	}
	if err := passed.Unused(); err != nil {
		return err
	}
	memory := s.options.memoryLimit.apply()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	background := s.watch(ctx)
	servers := s.start()
	s.health.set(serving)
	said := s.loaded()
	s.log.Info("weblimitd: serving", "version", core.Version(), "instance", s.instance, "policy", s.policyVersion(), "loaded", said, "store", s.backend.kind,
		"data", s.where("data"), "admin", s.where("admin"), "grpc", s.where("grpc"), "metrics", s.where("metrics"), "threads", runtime.GOMAXPROCS(0), "memory_limit", memory)
	notify.Ready("serving, policy " + s.policyVersion())

	c := &course{daemon: s, servers: servers, notify: notify, said: said, reloads: make(chan error, 1), cut: make(chan struct{})}
	err := c.run(ctx, signals)
	stop()
	background.Wait()
	return err
}

// watch runs what follows files and the store, until ctx ends.
func (s *daemon) watch(ctx context.Context) *sync.WaitGroup {
	var background sync.WaitGroup
	background.Go(func() { s.health.watch(ctx, s.backend.ping) })
	if s.policies != nil {
		background.Go(func() {
			stop := s.policies.Watch(ctx)
			<-ctx.Done()
			stop()
		})
	}
	follow := func(what string, reload func() (bool, error)) {
		background.Go(func() { s.follow(ctx, what, reload) })
	}
	for _, m := range s.mounts {
		if m.watch != nil {
			background.Go(func() { m.watch(ctx) })
		}
		if m.secrets != nil {
			follow("secrets", m.secrets)
		}
	}
	seen := map[*secure.Certificates]bool{}
	for _, c := range s.certs {
		if !seen[c] {
			seen[c] = true
			follow("certificates", c.Reload)
		}
	}
	if s.callers.tokens != nil {
		follow("tokens", s.callers.tokens.Reload)
	}
	follow("operators", s.admin.operators.reload)
	return &background
}

// follow reloads what is in files now and then, until ctx ends. They are read, since their times can be
// equal where they are links that are swapped.
func (s *daemon) follow(ctx context.Context, what string, reload func() (changed bool, err error)) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select { // one reload at a time: a SIGHUP reads the same files
		case s.reloading <- struct{}{}:
		case <-ctx.Done():
			return
		}
		changed, err := reload()
		<-s.reloading
		switch {
		case err == nil:
			last = ""
			if changed {
				s.metrics.reloaded(what, nil)
				s.log.Info("weblimitd: reloaded what has changed", "what", what)
			}
		case err.Error() != last: // once
			last = err.Error()
			s.metrics.reloaded(what, err)
			s.log.Error("weblimitd: not reloaded, all stays as it was", "what", what, "error", last)
		}
	}
}

// servers are those of the listeners.
type servers struct {
	data, admin, metrics *http.Server
	conns                connections // of data
	grpc                 interface {
		GracefulStop()
		Stop()
	}
}

// start serves on all listeners, in the background. What operators need to know of theirs is set before it serves.
func (s *daemon) start() *servers {
	all := &servers{}
	if s.listeners["data"] != nil {
		all.data = s.httpServer("data", s.dataHandler())
		all.data.ConnState = all.conns.note
		s.serveHTTP("data", all.data)
	}
	if l := s.listeners["admin"]; l != nil {
		o := s.admin.operators
		o.reach = listen.ReachOf(l)
		o.allowed = bool(s.options.insecureListen) && s.options.set.From("insecure-listen") != settings.Inherited // which callers have, and no operator
		o.certs = s.certs["admin"]
		all.admin = s.httpServer("admin", s.admin.handler(bool(s.options.pprof)))
		all.admin.RegisterOnShutdown(s.admin.page.Close)
		s.serveHTTP("admin", all.admin)
	}
	if l := s.listeners["metrics"]; l != nil {
		all.metrics = s.httpServer("metrics", s.metricsHandler(listen.ReachOf(l)))
		s.serveHTTP("metrics", all.metrics)
	}
	if s.listeners["grpc"] != nil {
		server := s.newGRPC()
		all.grpc = server
		s.serveGRPC(server)
	}
	return all
}

// drain ends the service: first it serves on while it is not ready, then it takes no more connections
// and finishes what runs, then it settles, and last it ends the listeners for operators and metrics. Requests that end last still have something
// to settle, and operators look at health and metrics until nothing is left to see.
func (all *servers) drain(ctx context.Context, s *daemon, delay time.Duration, cut <-chan struct{}) error {
	for _, m := range s.mounts {
		if m.leave != nil {
			m.leave()
		}
	}
	select {
	case <-time.After(delay):
	case <-cut:
		return errEndedAtOnce
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.drainTimeout.Duration)
	defer cancel()
	var ending sync.WaitGroup
	var fromHTTP, fromGRPC error
	if all.data != nil {
		ending.Go(func() {
			_ = s.listeners["data"].Close()
			all.conns.silent(ctx) // before Shutdown: see connections
			if fromHTTP = all.data.Shutdown(ctx); fromHTTP != nil {
				fromHTTP = fmt.Errorf("requests on the data listener were cut off after --drain-timeout: %w", fromHTTP)
				_ = all.data.Close()
			}
		})
	}
	if all.grpc != nil {
		close(s.guard.ending) // once, since there is one drain
		ending.Go(func() { fromGRPC = stopGRPC(ctx, all.grpc.GracefulStop, all.grpc.Stop) })
	}
	ending.Wait()
	// Its time begins now: that of the drain may be over, and what finished requests owe is still to be told.
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer done()
	var settled []error
	for _, m := range s.mounts {
		if m.drain != nil {
			if err := m.drain(settling); err != nil {
				settled = append(settled, fmt.Errorf("%s: %w", m.name, err))
			}
		}
	}
	for _, server := range []*http.Server{all.metrics, all.admin} {
		if server != nil {
			closing, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer done()
			_ = server.Shutdown(closing) // a page that is open is no reason to wait
			_ = server.Close()
		}
	}
	return errors.Join(append(settled, fromHTTP, fromGRPC)...)
}

// settleTimeout is how long refunds and charges of finished requests may take to reach the store.
const settleTimeout = 5 * time.Second

// stopGRPC ends a server gracefully until ctx ends, and at once then: graceful alone would wait for its slowest stream.
func stopGRPC(ctx context.Context, graceful, now func()) error {
	ended := make(chan struct{})
	go func() {
		graceful()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		now()
		<-ended
		return errors.New("calls on the gRPC listener were cut off after --drain-timeout")
	}
}

// where returns the address of a listener, for the log.
func (s *daemon) where(name string) string {
	l := s.listeners[name]
	if l == nil {
		return listen.Off
	}
	return addressOf(l)
}
