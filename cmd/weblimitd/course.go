package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/systemd"
	"github.com/weblimit/weblimit/core/store"
)

// oneSignal is the time within which two signals are one: some send it to the process and to its group.
const oneSignal = 500 * time.Millisecond

// course is the way of the service from its start to its end: what signals, reloads and listeners that fail lead to.
// One goroutine owns it, so that a reload and a drain can't overtake each other.
type course struct {
	*daemon
	servers *servers
	notify  *systemd.Notifier // nil without systemd
	said    string            // what there is to decide by, as it was last logged

	// The goroutines that send to reloads and drained do so once each, and find a place there: they wait for nobody
	// if the loop has ended meanwhile.
	reloads   chan error // the result of the one reload that is under way
	reloading bool
	again     bool // a signal came meanwhile, and what it is about may have been read before

	drained chan error    // nil until the drain begins, so that run hears nothing from it before
	began   time.Time     // the drain
	cut     chan struct{} // closed by a second signal, with which the loop ends: so never twice
	err     error         // why the drain began, if no signal was the reason
}

// run waits for signals, and beats, until the drain has ended. Health and systemd's watchdog are told from here, so that a
// loop which hangs shows: whatever takes time runs beside it.
func (c *course) run(ctx context.Context, signals <-chan os.Signal) error {
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	var watchdog <-chan time.Time
	if c.notify != nil && c.notify.Watchdog > 0 {
		ticker := time.NewTicker(c.notify.Watchdog)
		defer ticker.Stop()
		watchdog = ticker.C
	}
	for {
		select {
		case <-beat.C:
			c.beat()
		case <-watchdog:
			c.notify.Alive()
		case signal := <-signals:
			if err := c.signalled(ctx, signal); err != nil {
				return err
			}
		case err := <-c.reloads:
			c.reloaded(ctx, err)
		case failed := <-c.failed:
			if c.drained == nil { // the drain ends all listeners by itself
				c.err = failed
				c.log.Error("weblimitd: " + store.Reason(failed))
				c.drain(ctx, 0)
			}
		case ended := <-c.drained:
			c.log.Info("weblimitd: stopped", "complete", ended == nil)
			return errors.Join(c.err, ended)
		}
	}
}

// beat says what there is to decide by when that is no longer what was said: a file that is followed, a source and an
// operator change it without a signal.
func (c *course) beat() {
	c.health.alive()
	if now := c.loaded(); now != c.said && !c.reloading && c.drained == nil {
		c.said = now
		c.log.Info("weblimitd: decides by another version", "policy", c.policyVersion(), "loaded", c.said)
		c.notify.Status("serving, policy " + c.policyVersion())
	}
}

// signalled does what a signal asks for. Its error ends the service at once.
func (c *course) signalled(ctx context.Context, signal os.Signal) error {
	switch {
	case signal == syscall.SIGHUP && c.drained != nil: // nothing is decided by it any more
	case signal == syscall.SIGHUP && c.reloading:
		c.again = true
	case signal == syscall.SIGHUP:
		c.startReload(ctx)
	case c.drained != nil:
		if time.Since(c.began) >= oneSignal {
			close(c.cut)
			return errEndedAtOnce
		}
	case signal == os.Interrupt: // from a terminal, where no load balancer has to notice
		c.drain(ctx, 0)
	default:
		c.drain(ctx, c.options.drainDelay.Duration)
	}
	return nil
}

// startReload reads everything again, in the background.
func (c *course) startReload(ctx context.Context) {
	c.reloading, c.again = true, false
	c.notify.Reloading()
	go func() {
		ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
		defer cancel()
		c.reloads <- c.reload(ctx)
	}()
}

func (c *course) reloaded(ctx context.Context, err error) {
	c.reloading = false
	word := "serving"
	if err != nil {
		word = "serving, the last reload failed"
	}
	c.said = c.loaded()
	c.log.Info("weblimitd: reloaded", "policy", c.policyVersion(), "loaded", c.said, "ok", err == nil)
	c.notify.Ready(word + ", policy " + c.policyVersion())
	if c.again && c.drained == nil {
		c.startReload(ctx)
	}
}

// drain begins the end, once. The phase changes before anything closes: so /readyz answers 503 for the whole of the delay,
// and serveHTTP takes a listener that is closed for the end that it is.
func (c *course) drain(ctx context.Context, delay time.Duration) {
	if c.drained != nil {
		return
	}
	c.drained, c.began = make(chan error, 1), time.Now()
	c.health.set(draining)
	c.notify.Stopping()
	c.notify.Extend(delay + c.options.drainTimeout.Duration + 10*time.Second) // or systemd kills it at its own time-out
	c.log.Info("weblimitd: draining", "delay", delay.String(), "timeout", c.options.drainTimeout.String())
	drained := c.drained
	go func() { drained <- c.servers.drain(ctx, c.daemon, delay, c.cut) }()
}
