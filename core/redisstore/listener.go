package redisstore

// The listener: it hears to which keys any process has given units back, so that this
// process does not repeat a denial that may be over. The script publishes such a key if
// the key has a notice, which a denied take of a process that listens leaves; see
// lua/notice.lua. It hears as well which keys are blocked by hand, so that this process does not
// spend what it took ahead of them; see lua/penalty.lua. Without a listener, cached denials and
// slices end by their age.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
)

// listenTimes are the times by which a listener goes. Tests set others.
type listenTimes struct {
	ping  time.Duration // silence after which the connection is tried
	pause time.Duration // between two attempts to connect, up to twice that, so that a fleet spreads out
	loss  time.Duration // how long it fails before that is reported
	again time.Duration // when a server that refused it is asked again
	idle  time.Duration // how long it listens after the last denial or slice
}

// defaultListenTimes are for denials and slices that last for up to age.
func defaultListenTimes(age time.Duration) listenTimes {
	return listenTimes{
		ping: usualPatience.silence, pause: 250 * time.Millisecond, loss: 10 * time.Second,
		again: time.Minute, idle: time.Minute + age,
	}
}

// The kinds of events that only this store raises.
const (
	EventInvalidationOff store.EventKind = "invalidation off" // it does not hear what other processes give back: the denials that it repeats end by their age
	EventInvalidationOn  store.EventKind = "invalidation on"  // it hears that again
)

// listener is at most one connection and one goroutine. Both begin with the first denial
// that is cached, or the first slice of a limit with a penalty, and end when there was none
// for a while, or with the store, or with its client. It holds the store weakly.
type listener struct {
	channel string
	client  redis.UniversalClient
	refused error // why nothing can be heard through the client; nil if that is not known
	times   listenTimes

	hears    atomic.Bool  // what is published is heard
	running  atomic.Bool  // there is a goroutine, or it was reported that there can be none
	used     atomic.Int64 // when a denial was last cached or a slice taken, on the monotonic clock
	notUntil atomic.Int64 // when to begin at the earliest, on the monotonic clock
	reported atomic.Bool  // that nothing is heard
}

// errTooLong says that no channel can be made of a store's prefix.
var errTooLong = errors.New("the prefix is longer than 255 bytes")

func newListener(client redis.UniversalClient, prefix string, age time.Duration) *listener {
	l := &listener{channel: prefix + script.GivenBack, client: client, times: defaultListenTimes(age)}
	switch client.(type) {
	case *redis.Client, *redis.ClusterClient:
		if !script.CanPublish(prefix) {
			l.refused = errTooLong
		}
	default:
		// The shards of a Ring are connections of their own, and so may be those of others.
		l.refused = fmt.Errorf("a %T can't subscribe to all of its servers", client)
	}
	return l
}

// wake has the listener begin, or go on. It is called for each denial that is cached, and for
// each slice of a limit with a penalty.
func (l *listener) wake(s *Store) {
	now := monotonic()
	l.used.Store(now)
	if l.running.Load() || now < l.notUntil.Load() || !l.running.CompareAndSwap(false, true) {
		return
	}
	held := weak.Make(s)
	if l.refused != nil { // running stays true: that does not change
		l.reportOff(held, l.refused)
		return
	}
	go l.listen(held)
}

// listen hears what is published until nobody needs that any more.
func (l *listener) listen(held weak.Pointer[Store]) {
	defer l.running.Store(false)
	defer l.hears.Store(false)
	var failing int64 // since when, on the monotonic clock; 0 if it hears
	for {
		err := l.subscribe(held, func() { failing = 0 })
		l.hears.Store(false)
		switch now := monotonic(); {
		case err == nil, errors.Is(err, redis.ErrClosed):
			return
		case isRefusal(err):
			l.reportOff(held, err)
			l.notUntil.Store(now + int64(l.times.again))
			return
		case failing == 0:
			failing = now
		case now-failing >= int64(l.times.loss):
			l.reportOff(held, err)
		}
		time.Sleep(l.times.pause + rand.N(l.times.pause)) //nolint:gosec // G404: spreads attempts, hides nothing
		if l.isOver(held) {
			return
		}
	}
}

// isOver reports whether nobody needs the listener any more.
func (l *listener) isOver(held weak.Pointer[Store]) bool {
	return held.Value() == nil || monotonic()-l.used.Load() > int64(l.times.idle)
}

// subscribe listens on one connection until that fails. It returns nil if nobody needs
// the listener any more. It calls heard when it begins to hear.
func (l *listener) subscribe(held weak.Pointer[Store], heard func()) error {
	ctx := context.Background()
	sub := l.client.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	if err := sub.Subscribe(ctx, l.channel); err != nil {
		return err
	}
	pinged := false
	for {
		m, err := sub.ReceiveTimeout(ctx, l.times.ping)
		if err != nil {
			if !isTimeout(err) || pinged {
				return err
			}
			if l.isOver(held) {
				return nil
			}
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			pinged = true
			continue
		}
		pinged = false
		switch m := m.(type) {
		case *redis.Subscription: // go-redis subscribes again when it has lost the connection
			if err := l.client.Publish(ctx, l.channel, "").Err(); err != nil {
				return err
			}
			if l.begin(held); held.Value() == nil {
				return nil
			}
			heard()
		case *redis.Message:
			if s := held.Value(); s != nil && m.Payload != "" {
				s.hear(m.Payload)
			}
		}
	}
}

// hear does what a message asks for.
func (s *Store) hear(message string) {
	if key, ok := strings.CutPrefix(message, script.Blocked); ok {
		if s.prefetched != nil {
			s.prefetched.End([]byte(script.TagOf("", key)))
		}
	} else if s.denials != nil {
		s.denials.forgetKey(script.TagOf("", message))
	}
}

// begin has takes leave notices from now on, and drops the denials that were cached
// without one, or of which a message may have been lost, and what was taken ahead of keys
// that may be blocked by now.
func (l *listener) begin(held weak.Pointer[Store]) {
	if s := held.Value(); s != nil {
		l.hears.Store(true) // first: a take that has not seen it has its epoch from before
		if s.denials != nil {
			s.denials.forgetAll()
		}
		if s.prefetched != nil {
			s.prefetched.EndAll()
		}
		if l.reported.CompareAndSwap(true, false) {
			s.Registry().Report(store.Event{Kind: EventInvalidationOn, Over: true})
		}
	}
}

// noticeFor returns the notice that a take is to leave if it is denied: none if nobody
// would hear what the notice leads to.
func (s *Store) noticeFor(l lookup) uint8 {
	if l.sent == 0 || !s.listener.hears.Load() {
		return 0
	}
	return s.denials.notice
}

// reportOff reports once that nothing is heard.
func (l *listener) reportOff(held weak.Pointer[Store], err error) {
	if s := held.Value(); s != nil && l.reported.CompareAndSwap(false, true) {
		s.Registry().Report(store.Event{Kind: EventInvalidationOff, Class: classOf(err), Err: keyless(err)})
	}
}

// isRefusal reports whether the server has answered, and will answer the same again.
func isRefusal(err error) bool {
	switch classOf(err) {
	case store.ClassPermission, store.ClassLogin, store.ClassUnsupported:
		return true
	}
	return false
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
