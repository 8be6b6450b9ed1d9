package core

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/keyfuncs"
)

// flatten returns the observers that o is made of, nil if there are none.
func flatten(o Observer) (all []Observer) {
	several, ok := o.(observers)
	if !ok {
		several = observers{o}
	}
	for _, each := range several {
		if nested, ok := each.(observers); ok {
			all = append(all, flatten(nested)...)
		} else if each != nil {
			all = append(all, each)
		}
	}
	return all
}

// subject is what a decision is about: a request, or the key and cost of AllowKey.
type subject struct {
	request keyfuncs.Request // or nil, for AllowKey
	adapter string           // its name, if one asks

	ctx   context.Context // of AllowKey
	key   string
	cost  int64 // of AllowKey or a batch
	batch bool  // request is a batch of cost units
}

// final is the one exit of every decision of Allow, AllowKey and the adapters: d does not change
// afterwards. c is nil if no limit was asked, or on the short path, which has no observers.
func (l *Limiter) final(s subject, c *call, d *Decision) {
	if l.observers != nil {
		l.observe(s, c, d)
	}
}

// pooledObservation holds an observation while observers read it. It has a copy of the decision,
// since everything that is passed to an observer escapes: without the copy, each decision of
// Allow and AllowKey would be allocated. It is part of the call, or of a pool if there is none.
type pooledObservation struct {
	Observation
	decision Decision
}

var observations = sync.Pool{New: func() any { return new(pooledObservation) }}

// observe shows a decision to the observers.
func (l *Limiter) observe(s subject, c *call, d *Decision) {
	if c != nil {
		l.show(&c.seen, s, c, d)
		return
	}
	o := observations.Get().(*pooledObservation)
	l.show(o, s, nil, d)
	observations.Put(o)
}

// show shows a decision to the observers in o, which does not refer to it afterwards.
func (l *Limiter) show(o *pooledObservation, s subject, c *call, d *Decision) {
	o.decision = *d
	o.Decision, o.Adapter, o.request, o.call = &o.decision, s.adapter, s.request, c
	o.Method, o.CheckTime, o.WaitTime = "", 0, 0
	o.CheckStart, o.CheckEnd = time.Time{}, time.Time{}
	for ; c != nil; c = c.outage {
		o.WaitTime += c.waitTime
		if c.checkTime == 0 {
			continue
		}
		if o.CheckTime == 0 {
			o.CheckStart = c.checkStart
		}
		if c.checkEnd.After(o.CheckEnd) {
			o.CheckEnd = c.checkEnd
		}
		o.CheckTime += c.checkTime
	}
	ctx := s.ctx
	if s.request != nil {
		ctx, o.Method = s.request.Context(), s.request.Method()
	}
	for _, observer := range l.observers {
		l.decided(ctx, observer, &o.Observation)
	}
	// Only what the next decision does not overwrite, and what should not be kept for it: to clear
	// all of it would take as long as to copy the decision.
	o.request, o.call, o.Method = nil, nil, ""
	o.decision.many, o.decision.held, o.decision.Err = nil, nil, nil
}

func (l *Limiter) decided(ctx context.Context, observer Observer, o *Observation) {
	defer l.advisor.ObserverPanics(observer)
	observer.Decided(ctx, o)
}

// attach tells an observer that a limiter has it.
func (l *Limiter) attach(observer Observer, log *advice.Log) {
	defer log.ObserverPanics(observer)
	observer.Attached(l)
}

// settled shows a settlement to the observers. It runs in the background, where a panic that is
// not recovered would end the process.
func (l *Limiter) settled(s Settlement) {
	for _, observer := range l.observers {
		func() {
			defer l.advisor.ObserverPanics(observer)
			observer.Settled(s)
		}()
	}
}

// observe reports the store's events to an observer, once even if several limiters have it.
func (s *shared) observe(observer Observer, log *advice.Log) {
	if reflect.ValueOf(observer).Comparable() {
		s.observing.Lock()
		defer s.observing.Unlock()
		if slices.Contains(s.observers, observer) {
			return
		}
		s.observers = append(s.observers, observer)
	}
	s.Watch(func(e Event) {
		defer log.ObserverPanics(observer)
		observer.StoreEvent(e)
	})
}
